"""The CUDA text of kernels, as a reader sees it (without line markers)."""

from __future__ import annotations

import re
from pathlib import Path

from targets.cuda_text import cubin, emission, kernel

from croq_magic.compiler import evaluate, integers
from croq_magic.compiler.targets.cuda import disasm
from croq_magic.compiler.types import S32, S64

SEEDS = Path(__file__).parents[2] / "programs" / "seeds"


def extents(triple: tuple[object, ...]) -> tuple[int | None, ...]:
    return tuple(integers.value(e) for e in triple)  # type: ignore[arg-type]


def test_product_of_tiles() -> None:
    """Tiles in shared memory by 16-byte accesses, the two barriers it needs, the sum in a register."""
    assert (
        kernel((SEEDS / "matmul_dma.co").read_text())
        == """\
extern "C" __global__ void __launch_bounds__(256) matmul_kernel(const s32* __restrict__ lhs, \
const s32* __restrict__ rhs, s32* __restrict__ output) {
  const int thread = threadIdx.x + 16 * threadIdx.y;
  const int px = blockIdx.x;
  const int py = blockIdx.y;
  __shared__ __align__(128) s32 lhs_load[256];
  __shared__ __align__(128) s32 rhs_load[256];
  s32 output_acc;
  output_acc = 0;
  for (int tile_k = 0; tile_k < 16; ++tile_k) {
    if (thread < 64) {
      const int i1 = thread % 4;
      const int i0 = thread / 4;
      *(uint4*)&lhs_load[i0 * 16 + i1 * 4] = *(const uint4*)&lhs[px * 4096 + i0 * 256 + tile_k * 16 + i1 * 4];
    }
    if (thread >= 64 && thread < 128) {
      const int i = thread - 64;
      const int i1 = i % 4;
      const int i0 = i / 4;
      *(uint4*)&rhs_load[i0 * 16 + i1 * 4] = *(const uint4*)&rhs[tile_k * 4096 + i0 * 256 + py * 16 + i1 * 4];
    }
    __syncthreads();
    {
      const int qx = threadIdx.x;
      const int qy = threadIdx.y;
      #pragma unroll
      for (int k = 0; k < 16; ++k) {
        output_acc += lhs_load[qx * 16 + k] * rhs_load[k * 16 + qy];
      }
    }
    __syncthreads();
  }
  const int qx = threadIdx.x;
  const int qy = threadIdx.y;
  output[px * 4096 + qx * 256 + py * 16 + qy] = output_acc;
}"""
    )


def test_launch_of_the_product() -> None:
    found = emission((SEEDS / "matmul_dma.co").read_text())
    (launch,) = found.kernels
    assert (extents(launch.grid), extents(launch.block)) == ((8, 16, 1), (16, 16, 1))
    assert [(a.name, a.kind, a.written) for a in launch.arguments] == [
        ("lhs", "buffer", False),
        ("rhs", "buffer", False),
        ("output", "buffer", True),
    ]
    assert found.kernel_of(launch.launch) is launch


def test_one_level_of_any_size_becomes_threads_along_memory() -> None:
    text = kernel("__co__ f32 [70, 90] f(f32 [70, 90] x) { f32 [70, 90] r; "
                  "parallel {i, j} by [70, 90] r.at(i, j) = x.at(i, j) + 1.0f; return r; }")  # fmt: skip
    assert (
        text
        == """\
extern "C" __global__ void __launch_bounds__(32) f_kernel(f32* __restrict__ r, const f32* __restrict__ x) {
  const int tile = blockIdx.x;
  const int unit = threadIdx.x;
  const int place = tile * 32 + unit;
  if (place < 6300) {
    r[place] = x[place] + 1.0f;
  }
}"""
    )


def test_symbolic_extents_are_arguments_of_a_type_left_open() -> None:
    """The text stands once; the host chooses the kernel whose indices have 32 bits where the extents allow it."""
    found = emission("__co__ f32 [M, N] f(f32 [M, N] x) { f32 [M, N] r; "
                     "parallel {i, j} by [M, N] r.at(i, j) = x.at(j % M, i % N); return r; }")  # fmt: skip
    wide, narrow = found.kernels
    assert (wide.symbol, narrow.symbol, narrow.wide) == ("f_kernel_wide", "f_kernel", wide)
    for made, dtype in ((narrow, S32), (wide, S64)):
        assert [(a.name, a.dtype) for a in made.arguments if a.kind == "scalar"] == [("N", dtype), ("M", dtype)]
        assert evaluate.function(made.grid, ["M", "N"])(1000, 1000) == (3907, 1, 1)
    fits = evaluate.function((narrow.fits,), ["M", "N"])
    assert fits(1000, 1000) == (True,) and fits(1, 1) == (True,)
    assert fits(1 << 15, 1 << 16) == (False,) and fits(1 << 31, 1) == (False,)
    assert "const croq_index place = croq_index(tile) * 256 + unit;" in found.text
    assert "if (place < N * M)" in found.text
    assert re.search(r"^  f_kernel_body<int>\((x, r|r, x), N, M, croq_report\);$", found.text, re.MULTILINE)


def test_asynchronous_copies_wait_for_their_own_group() -> None:
    """In the double buffer the newer of two transfers may stay under way."""
    text = """__co__ f32 [64] f(f32 [8, 64] x) {
  f32 [64] r;
  parallel b by 1 : block {
    a = dma.copy.async x.chunkat(0, _) => shared;
    n = dma.any;
    shared f32 [64] sum {0.0f};
    foreach k in [7] {
      n = dma.copy.async x.chunkat(k + 1, _) => shared;
      wait a;
      parallel t by 64 : thread { sum.at(t) += a.data.at(0, t); }
      swap(a, n);
    }
    wait a;
    parallel t by 64 : thread { r.at(t) = sum.at(t) + a.data.at(0, t); }
  }
  return r;
}"""
    text = text.replace("x.chunkat(0, _)", "x.subspan(1, 64).at(0, 0)").replace(
        "x.chunkat(k + 1, _)", "x.subspan(1, 64).at(k + 1, 0)"
    )
    new = kernel(text, "sm_80")
    assert new.count("croq_async_copy<16>") == 2
    assert new.index("croq_async_wait<1>();") < new.index("croq_async_wait<0>();")
    assert new.count("croq_async_wait") == 2
    old = kernel(text, "sm_75")
    assert "async" not in old
    assert old.count("*(uint4*)") == 2


def test_effects_between_levels_are_those_of_one_thread() -> None:
    text = kernel("""__co__ s32 [4] f(s32 [4, 64] x) {
  s32 [4] r;
  parallel b by 4 : block {
    shared s32 [64] s;
    parallel t by 64 : thread { s.at(t) = x.at(b, t); }
    mutable s32 total = s.at(0);
    foreach i in [63] { total += s.at(i + 1); }
    r.at(b) = total;
  }
  return r;
}""")
    assert "if (thread == 0) {\n    r[b] = total;\n  }" in text
    assert text.count("__syncthreads();") == 1  # before all threads read what all wrote


def test_levels_in_one_linear_block() -> None:
    text = kernel("""__co__ s32 [2, 3, 64] f() {
  s32 [2, 3, 64] r;
  parallel b by 2 : block { parallel g by 3 : group { parallel {u, v} by [16, 4] : thread {
    r.at(b, g, v * 16 + u) = u + 100 * v; } } }
  return r;
}""")
    assert "const int thread = threadIdx.x;" in text
    assert "const int g = thread / 64;" in text
    assert "const int u = thread % 16;" in text
    assert "const int v = thread / 16 % 4;" in text


def test_swizzled_tiles_are_addressed_by_logical_elements() -> None:
    text = kernel("""__co__ f16 [64, 64] f(f16 [64, 64] x) {
  f16 [64, 64] r;
  parallel b by 1 : block {
    t = dma.copy.swiz<128> x => shared;
    parallel {i, j} by [16, 64] : thread { foreach k in [4] r.at(i * 4 + k, j) = t.data.at(i * 4 + k, j); }
  }
  return r;
}""")
    assert "__shared__ __align__(1024) f16 t[4096];" in text
    assert "*(uint4*)&t[croq_swizzle(thread * 8, 56)] = *(const uint4*)&x[thread * 8];" in text


def test_large_shared_memory_is_dynamic() -> None:
    text = """__co__ f32 [64, 256] f(f32 [64, 256] x) {
  f32 [64, 256] r;
  parallel b by 1 : block {
    a = dma.copy x => shared;
    parallel t by 256 : thread { foreach i in [64] r.at(i, t) = a.data.at(i, 255 - t); }
  }
  return r;
}"""
    found = emission(text)
    (launch,) = found.kernels
    assert integers.value(launch.shared_bytes) == 64 * 1024
    assert "extern __shared__ __align__(128) unsigned char croq_shared[];" in found.text
    assert "f32* const a = (f32*)croq_shared;" in found.text


def test_shared_memory_is_reused_once_a_buffer_is_done() -> None:
    text = kernel("""__co__ f32 [2, 64] f(f32 [2, 64] x) {
  f32 [2, 64] r;
  parallel b by 1 : block {
    a = dma.copy x.subspan(1, 64).at(0, 0) => shared;
    parallel t by 64 : thread { r.at(0, t) = a.data.at(0, 63 - t); }
    sync.shared;
    c = dma.copy x.subspan(1, 64).at(1, 0) => shared;
    parallel t by 64 : thread { r.at(1, t) = c.data.at(0, 63 - t); }
  }
  return r;
}""")
    assert "__shared__ __align__(128) unsigned char croq_shared[256];" in text
    assert text.count("(f32*)croq_shared;") == 2


def test_a_failed_check_is_reported_and_its_access_left_out() -> None:
    found = emission(
        "__co__ s32 [8] f(s32 [8] x) { s32 [8] r; parallel p by 8 : thread r.at(p) = x.at(x.at(p)); return r; }"
    )
    (launch,) = found.kernels
    assert launch.arguments[-1].kind == "report"
    assert "x[p] >= 0 && x[p] < 8 ? x[x[p]] : (croq_fail(croq_report, 0, p, x[p], 8), 0)" in found.text
    (check,) = found.checks
    assert (check.instance, check.dims, [o.name for o in check.operands]) == (("p",), (0,), ["index", "extent"])


def test_without_checks_there_is_no_report() -> None:
    text = "__co__ s32 [8] f(s32 [8] x) { s32 [8] r; parallel p by 8 : thread r.at(p) = x.at(x.at(p)); return r; }"
    assert "croq_report" not in kernel(text, checks="none")


def test_roles_wait_at_barriers_of_the_block() -> None:
    text = kernel("""__co__ s32 [4, 128] f(s32 [4, 128] x) {
  s32 [4, 128] r;
  parallel b by 1 : block {
    shared s32 [2, 128] slot;
    shared event have[2];
    shared event freed[2] = ready;
    parallel w by 2 : group-4, t by 128 : thread {
      inthreads.async (w == 0) { foreach n in [4] {
        wait freed.at(n); slot.at(n % 2, t) = x.at(n, t); trigger have.at(n); } }
      inthreads.async (w == 1) { foreach n in [4] {
        wait have.at(n); r.at(n, t) = slot.at(n % 2, 127 - t); trigger freed.at(n); } }
    }
  }
  return r;
}""")
    assert "croq_mbarrier_init(&have[i], 128);" in text
    assert "croq_mbarrier_wait(&freed[n % 2], n / 2 + 1);" in text  # generation 0 is there from the start
    assert "croq_mbarrier_wait(&have[n_1 % 2], n_1 / 2);" in text


CHAIN = """__co__ s32 [9, 32] f(s32 [9, 32] x) {
  s32 [9, 32] r;
  global event<32> passed[9];
  parallel b by 9 : block, t by 32 : thread {
    if (b > 0) { wait passed[b - 1]; }
    r.at(b, t) = x.at(b, t) + (b > 0 ? r.at(b > 0 ? b - 1 : 0, t) : 0);
    if (b < 8) { trigger passed[b]; }
  }
  return r;
}"""


def test_events_of_all_blocks_are_words_of_device_memory() -> None:
    found = emission(CHAIN)
    (launch,) = found.kernels
    assert launch.cooperative
    (counter,) = [a for a in launch.arguments if a.kind == "counter"]
    assert integers.value(counter.words) == 9
    assert "const unsigned passed_parties = 32;" in found.text
    assert "croq_far_arrive(&passed[b]);" in found.text
    binary, log = cubin(found.text, "sm_80")
    assert binary, log


def test_a_long_line_is_printed_in_parts() -> None:
    """CUDA's printf takes 32 values."""
    values = ", ".join(f"x.at({n})" for n in range(40))
    text = kernel(f"__co__ void f(s32 [40] x) {{ parallel p by 1 : thread {{ println({values}); }} }}")
    calls = [line for line in text.splitlines() if "printf(" in line]
    assert [call.count("%d") for call in calls] == [32, 8] and [call.count("x[") for call in calls] == [32, 8]
    assert calls[0].count(r"\n") == 0 and calls[1].count(r"\n") == 1


COPIES = """
__co__ void f(f32 [{rows}, {columns}] x, f32 [{rows}, {columns}]& y) {{
  parallel by 1 : block {{
    s = dma.copy x => shared;
    parallel {{i, j}} by [{block}] : thread y.at(j, i) = s.data.at(j, i);
  }}
}}
"""


def test_copies_of_several_turns_are_counted_in_turns() -> None:
    """Compilers do not know below what a thread's number stays, so they could not write such a loop out otherwise."""
    text = kernel(COPIES.format(rows=24, columns=32, block="16, 4").replace("y.at(j, i) = s.data.at(j, i)", "{}"))
    assert "for (int turn = 0; turn < 3; ++turn) {\n    const int i = turn * 64 + thread;\n    *(uint4*)" in text
    binary, _ = cubin(emission(COPIES.format(rows=24, columns=32, block="32, 4")).text, "sm_90a")
    loads = re.findall(r"LDG\.E\.128", disasm.sass(binary))
    assert len(loads) == 2  # one for all turns but the last, which half of the threads take


def test_the_last_turn_may_be_one_of_fewer_threads() -> None:
    text = kernel(COPIES.format(rows=7, columns=20, block="20, 1"))
    assert "for (int turn = 0; turn < 2; ++turn) {" in text
    assert "if (turn < 1 || i < 35) {" in text


def test_rows_of_threads_are_counted_in_turns() -> None:
    source = COPIES.format(rows=12, columns=17, block="17, 3").replace("copy x", "copy x.subspan(12, 17)")
    text = kernel(source.replace("f32 [12, 17] x", "f32 [12, 19] x"))
    assert "const int i0 = turn * 3 + threadIdx.y;" in text


def test_storage_of_a_thread_is_accumulated_where_it_is() -> None:
    text = kernel(
        """__co__ f32 [64] f(f32 [64, 8] x) {
          f32 [64] r;
          parallel t by 64 : thread {
            local f32 [8] acc {0.0f};
            foreach k in 40 foreach i in 8 acc.at(i) += x.at(t, i) * k;
            f32 s = 0.0f;
            foreach i in 8 s += acc.at(i);
            r.at(t) = s;
          }
          return r;
        }"""
    )
    assert "acc_acc" not in text and "acc[i4 * 4 + e] +=" in text


def test_steps_of_a_tile_in_registers_are_written_out() -> None:
    """A thread's products of 8 x 8 elements: loops one after the other do not multiply the work of the loop around."""
    text = kernel(
        """__co__ f32 [128, 128] mm(f32 [128, 8] a, f32 [8, 128] b) {
          f32 [128, 128] c;
          parallel by 1 : block {
            sa = dma.copy a => shared;
            sb = dma.copy b => shared;
            parallel {tx, ty} by [16, 16] : thread {
              local f32 [8, 8] acc {0.0f};
              local f32 [8] ra, rb;
              foreach k in 8 {
                foreach i in 8 ra.at(i) = sa.data.at(ty#i, k);
                foreach j in 8 rb.at(j) = sb.data.at(k, tx#j);
                foreach {i, j} in [8, 8] acc.at(i, j) += ra.at(i) * rb.at(j);
              }
              dma.copy acc => c.subspan(8, 8).at(ty, tx);
            }
          }
          return c;
        }"""
    )
    assert "#pragma unroll\n  for (int k = 0; k < 8; ++k)" in text
