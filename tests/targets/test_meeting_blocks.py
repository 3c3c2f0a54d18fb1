"""Blocks that wait for each other on the CPU: events of the launch, events and barriers of clusters, grid barriers."""

from __future__ import annotations

import numpy as np
import pytest

import croq_magic as croq

RANDOM = np.random.default_rng(31)


def integers(*shape: int) -> np.ndarray:
    return RANDOM.integers(-50, 50, shape).astype(np.int32)


# Each block adds its row to what the block before it has left: the event of the launch passes from block to block.
CHAIN = """
__co__ s32 [B, 32] chain(s32 [B, 32] x) {
  s32 [B, 32] r;
  global event<32> passed[64];
  parallel b by B : block, t by 32 : thread {
    if (b > 0) { wait passed[b - 1]; }
    r.at(b, t) = x.at(b, t) + (b > 0 ? r.at(b > 0 ? b - 1 : 0, t) : 0);
    if (b < B - 1) { trigger passed[b]; }
  }
  return r;
}
"""


def test_a_chain_of_blocks() -> None:
    program = croq.compile(CHAIN, target="cpu")
    for blocks in (1, 2, 7, 64):
        x = integers(blocks, 32)
        np.testing.assert_array_equal(program.chain(x), np.cumsum(x, axis=0))


def test_an_event_of_the_host_begins_anew_in_every_launch() -> None:
    program = croq.compile(
        """__co__ s32 [3, 4, 33] f(s32 [4, 33] x) {
          s32 [3, 4, 33] r;
          s32 [33] sum;
          global event full, done = ready;
          foreach k in 3 {
            parallel b by 4 : block, t by 33 : thread {
              if (b == 2) { wait done; sum.at(t) = x.at(2, t) * (k + 1); trigger full; }
              else { wait full; r.at(k, b, t) = sum.at(t) + x.at(b, t); }
            }
          }
          return r;
        }""",
        target="cpu",
    )
    x = integers(4, 33)
    expected = np.array([x[2] * (k + 1) + x for k in range(3)])
    expected[:, 2] = 0
    np.testing.assert_array_equal(program.f(x), expected)


def test_a_ring_between_a_producing_and_a_consuming_block() -> None:
    """Roles are blocks; what is passed lies in global memory; each generation is waited for by all threads."""
    program = croq.compile(
        """__co__ s32 [N, 40] f(s32 [N, 40] x) {
          s32 [N, 40] r;
          s32 [3, 40] slots;
          global event have[3], freed[3] = ready;
          parallel b by 2 : block, t by 40 : thread {
            inthreads.async (b == 0) {
              foreach n in N { wait freed.at(n); slots.at(n % 3, t) = x.at(n, t) * 3; trigger have.at(n); }
            }
            inthreads.async (b == 1) {
              foreach n in N { wait have.at(n); r.at(n, t) = slots.at(n % 3, 39 - t) + n; trigger freed.at(n); }
            }
          }
          return r;
        }""",
        target="cpu",
    )
    for n in (1, 3, 10):
        x = integers(n, 40)
        np.testing.assert_array_equal(program.f(x), x[:, ::-1] * 3 + np.arange(n)[:, None])


@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_trigger_of_a_cluster(blocks: int) -> None:
    """Every block of a cluster adds its sum where all can see it, and goes on when all have. Shared storage is each
    block's own, and so is what a cluster does."""
    program = croq.compile(
        f"""__co__ s32 [3, {blocks}, 8] f(s32 [3, {blocks}, 8] x) {{
          s32 [3, {blocks}, 8] r;
          s32 [3, {blocks}] sums;
          parallel c by 3 : cluster, b by {blocks} : block {{
            shared s32 [8] own;
            shared event all;
            parallel t by 8 : thread {{
              own.at(t) = x.at(c, b, t);
              sync.shared;
              inthreads.async (t == 0) {{
                mutable s32 total = 0;
                foreach i in 8 total += own.at(i);
                sums.at(c, b) = total;
                trigger.cluster all;
              }}
              inthreads.async (t < 8) {{
                wait all;
                mutable s32 most = sums.at(c, 0);
                foreach k in {blocks} most = __max(most, sums.at(c, k));
                r.at(c, b, t) = most - own.at(7 - t);
              }}
            }}
          }}
          return r;
        }}""",
        target="cpu",
    )
    x = integers(3, blocks, 8)
    expected = x.sum(axis=2).max(axis=1)[:, None, None] - x[:, :, ::-1]
    np.testing.assert_array_equal(program.f(x), expected)


def test_a_leading_block_fills_the_rings_of_its_cluster() -> None:
    """One block loads for all: its arrivals count in every block's own event, in rings, with named barriers beside."""
    program = croq.compile(
        """__co__ s32 [2, 3, N, 64] f(s32 [2, N, 64] x) {
          s32 [2, 3, N, 64] r;
          s32 [2, 2, 64] tile;
          parallel c by 2 : cluster, b by 3 : block {
            shared event have[2];
            shared event freed[2] = ready;
            shared s32 [64] copy;
            parallel w by 2 : group, t by 64 : thread {
              inthreads.async (w == 0 && b == 0) {
                foreach n in N {
                  wait freed.at(n);
                  tile.at(c, n % 2, t) = x.at(c, n, t) * 2;
                  trigger.cluster have.at(n);
                }
              }
              inthreads.async (w == 1) {
                foreach n in N {
                  wait have.at(n);
                  copy.at(t) = tile.at(c, n % 2, t);
                  __bar_sync(1, 64);
                  r.at(c, b, n, t) = copy.at(63 - t) + b;
                  __bar_sync(1, 64);
                  trigger.cluster freed.at(n);
                }
              }
            }
          }
          return r;
        }""",
        target="cpu",
    )
    for n in (1, 2, 9):
        x = integers(2, n, 64)
        expected = np.stack([(x * 2)[:, :, ::-1] + b for b in range(3)], axis=1)
        np.testing.assert_array_equal(program.f(x), expected)


def test_roles_beside_a_barrier_of_the_grid() -> None:
    program = croq.compile(
        """__co__ s32 [B, 64] f(s32 [B, 64] x) {
          s32 [B, 64] r;
          s32 [B, 64] mid;
          parallel b by B : block<cooperative> {
            shared s32 [32] part;
            shared event full, again;
            parallel w by 2 : group, t by 32 : thread {
              inthreads.async (w == 0) { part.at(t) = x.at(b, t) * 2; trigger full; }
              inthreads.async (w == 1) { wait full; mid.at(b, 63 - t) = part.at(t); mid.at(b, t) = x.at(b, t + 32); }
              sync.barrier : device;
              q = (b + 1) % B;
              inthreads.async (w == 1) { part.at(t) = mid.at(q, t); trigger again; }
              inthreads.async (w == 0) { wait again; r.at(b, t) = part.at(31 - t); }
              r.at(b, w * 32 + t) += w * mid.at(q, w * 32 + t);
            }
          }
          return r;
        }""",
        target="cpu",
    )
    for blocks in (1, 2, 17):
        x = integers(blocks, 64)
        mid = np.hstack([x[:, 32:], (x[:, :32] * 2)[:, ::-1]])
        other = np.roll(mid, -1, axis=0)
        np.testing.assert_array_equal(program.f(x), np.hstack([other[:, 31::-1], other[:, 32:]]))


def test_fragments_belong_to_their_block() -> None:
    program = croq.compile(
        """__co__ f32 [2, 16, 8] f(f16 [2, 16, 16] a, f16 [16, 8] b) {
          f32 [2, 16, 8] r;
          global event turn;
          parallel p by 2 : block {
            parallel w by 1 : group {
              c = mma.fill.f32 0.0f;
              t = dma.copy a.chunkat(p, _, _) => shared;
              mma.row.col c, t.data.span_as([16, 16]), b;
              if (p == 1) { wait turn; }
              mma.store c, r.chunkat(p, _, _).span_as([16, 8]);
              if (p == 0) { trigger turn; }
            }
          }
          return r;
        }""",
        target="cpu",
    )
    a = RANDOM.integers(-4, 5, (2, 16, 16)).astype(np.float16)
    b = RANDOM.integers(-4, 5, (16, 8)).astype(np.float16)
    np.testing.assert_array_equal(program.f(a, b), a.astype(np.float32) @ b.astype(np.float32))


ROUND = """
__co__ s32 [8, 33] round(s32 [8, 33] x, int turns) {
  s32 [8, 33] a, r;
  parallel c by 2 : cluster, b by 4 : block, t by 33 : thread {
    foreach s in turns {
      a.at(c#b, t) = x.at(c#b, t) + s;
      sync.barrier : cluster;
      r.at(c#b, t) += a.at(c * 4 + (b + 1) % 4, 32 - t);
      sync.barrier : cluster;
    }
  }
  return r;
}
"""


@pytest.mark.gpu_refuses("UNS01")  # sm_80 has no clusters
def test_a_barrier_of_the_cluster() -> None:
    program = croq.compile(ROUND, target="cpu")
    assert program.warnings == []
    x = integers(8, 33)
    for turns in (0, 1, 3):
        rounds = [np.roll((x + s).reshape(2, 4, 33), -1, axis=1).reshape(8, 33)[:, ::-1] for s in range(turns)]
        np.testing.assert_array_equal(program.round(x, turns), np.sum(rounds, axis=0, dtype=np.int32) + 0 * x)


def test_a_deadlock_between_blocks_is_reported() -> None:
    program = croq.compile(
        """__co__ void f(s32 [2] x) {
          global event a, b;
          parallel p by 2 : block {
            if (p == 0) { wait a; trigger b; } else { wait b; trigger a; }
          }
        }""",
        target="cpu",
    )
    with pytest.raises(croq.CheckError, match="deadlock"):
        program.f(np.zeros(2, np.int32))


@pytest.mark.cpu_only
def test_loops_refuse_blocks_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROQ_STRATEGY", "loops")
    with pytest.raises(croq.TargetError, match="loops cannot run events between blocks"):
        croq.compile(CHAIN, target="cpu").chain(integers(2, 32))


def test_events_belong_to_launches() -> None:
    with pytest.raises(croq.CompileError, match="events are triggered and waited on inside `parallel`"):
        croq.compile("__co__ void f() { event e; trigger e; }", target="cpu")
    with pytest.raises(croq.CompileError, match="`global` events are declared on the host"):
        croq.compile("__co__ void f() { parallel by 1 { global event e; } }", target="cpu")


SLOTS = """__co__ s32 [4, 64] f(s32 [4, 64] x) {
  s32 [4, 64] r;
  global event%s e[4];
  parallel b by 4 : block, w by 2 : group, t by 32 : thread {
    inthreads.async (w == 0) { r.at(b, t) = x.at(b, t) * 2; trigger e[b]; }
    inthreads.async (w == 1) { wait e[(b + 1) %% 4]; r.at(b, 32 + t) = r.at((b + 1) %% 4, t); }
  }
  return r;
}
"""


def test_slots_that_blocks_choose() -> None:
    x = integers(4, 64)
    left = 2 * x[:, :32]
    expected = np.concatenate([left, np.roll(left, -1, axis=0)], axis=1)
    np.testing.assert_array_equal(croq.compile(SLOTS % "<32>", target="cpu").f(x), expected)


@pytest.mark.cpu_only
def test_slots_that_blocks_choose_need_a_number_of_arrivals() -> None:
    with pytest.raises(croq.CompileError, match="write `event<n> e`") as failure:
        croq.compile(SLOTS % "", target="cpu")
    assert [(d.code, d.span.line) for d in failure.value.diagnostics] == [("UNS01", 5)]


def test_a_slot_for_each_group() -> None:
    """The number of arrivals that is stated counts, where all groups together would be more."""
    text = """__co__ s32 [4, 32] f(s32 [4, 32] x) {
      s32 [4, 32] r;
      parallel b by 1 : block, w by 4 : group, t by 32 : thread {
        shared event<32> e[4];
        shared s32 [4, 32] s;
        inthreads.async (w < 4) {
          s.at(w, t) = x.at(w, t) * 2;
          trigger e[w];
          wait e[(w + 1) % 4];
          r.at(w, t) = s.at((w + 1) % 4, t);
        }
      }
      return r;
    }"""
    x = integers(4, 32)
    np.testing.assert_array_equal(croq.compile(text, target="cpu").f(x), np.roll(2 * x, -1, axis=0))
