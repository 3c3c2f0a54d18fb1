"""Roles that pass tiles through rings of slots: every way to write events, against NumPy, in all ways to run them."""

from __future__ import annotations

import numpy as np
import pytest

import croq_magic as croq


@pytest.fixture(params=["auto", "roles", "fibers"], autouse=True)
def _strategy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the compiler chooses (a loop where turns are known), with a fiber a group, and with a fiber a thread."""
    monkeypatch.setenv("CROQ_STRATEGY", request.param)


RING = """
__co__ s32 [{n}, 64] f(s32 [{n}, 64] x) {{
  s32 [{n}, 64] r;
  parallel b by 1 : block {{
    shared s32 [64] slot[{d}];
    shared event have[{d}], freed[{d}]{ready};
    {before}
    parallel w by 2 : group, t by 64 : thread {{
      inthreads.async (w == 0) {{
        mutable s32 k = 0;
        foreach n in {n} {{
          wait freed{at};
          slot[n % {d}].at(t) = x.at(n, t) * 2;
          trigger have{at};
          k = k + 1;
        }}
      }}
      inthreads.async (w == 1) {{
        mutable s32 k = 0;
        {seed}
        foreach n in {n} {{
          wait have{at};
          r.at(n, t) = slot[n % {d}].at(63 - t) + 1;
          trigger freed{at};
          k = k + 1;
        }}
      }}
    }}
  }}
  return r;
}}
"""
ORDERS = {"order": ".at(n)", "slot": "[n % {d}]", "counter": ".at(k)", "modulo": ".at(n % (2 * {d}))"}


@pytest.mark.parametrize(
    "at, credit, n, d",
    [
        ("order", "ready", 1, 1),
        ("order", "block", 7, 1),
        ("order", "consumer", 9, 2),
        ("slot", "ready", 8, 3),
        ("slot", "consumer", 7, 1),
        ("slot", "block", 9, 2),
        ("counter", "ready", 9, 2),
        ("counter", "consumer", 8, 3),
        ("modulo", "ready", 7, 1),
        ("modulo", "consumer", 9, 2),
        ("modulo", "block", 14, 3),
    ],
)
def test_ring(at: str, credit: str, n: int, d: int) -> None:
    """The first credits are there from the start, or given by the consumer, or by the block before the roles start."""
    give = f"foreach {{s}} in [{d}] trigger freed[s];"
    source = RING.format(
        n=n,
        d=d,
        at=ORDERS[at].format(d=d),
        ready=" = ready" if credit == "ready" else "",
        seed=give if credit == "consumer" else "",
        before=give if credit == "block" else "",
    )
    x = np.arange(n * 64, dtype=np.int32).reshape(n, 64)
    np.testing.assert_array_equal(croq.compile(source).f(x), x[:, ::-1] * 2 + 1)


def test_order_that_counts_itself() -> None:
    source = """
        __co__ s32 [5, 32] f(s32 [5, 32] x) {
          s32 [5, 32] r;
          parallel b by 1 : block {
            shared s32 [32] slot[2];
            shared event have[2], freed[2] = ready;
            parallel w by 2 : group {
              inthreads.async (w == 0) {
                mutable int k = 0;
                mutable int j = 0;
                foreach n in 5 { wait freed.at(k++); dma.copy x.chunkat(n, _).span_as([32]) => slot[n % 2];
                                 trigger have.at(j++); }
              }
              inthreads.async (w == 1) {
                mutable int k = 0;
                mutable int j = 0;
                foreach n in 5 { wait have.at(k++); dma.copy slot[n % 2] => r.chunkat(n, _).span_as([32]);
                                 trigger freed.at(j++); }
              }
            }
          }
          return r;
        }
    """
    x = np.arange(160, dtype=np.int32).reshape(5, 32)
    np.testing.assert_array_equal(croq.compile(source).f(x), x)


PRODUCT = """
__co__ void f(global f16 [M, K] a, global f16 [N, K] b, global f32 [M, N] c) {
  parallel {bm, bn} by [M / 32, N / 16] : block {
    shared f16 [32, 32] ta[STAGES];
    shared f16 [16, 32] tb[STAGES];
    shared event have[STAGES], freed[STAGES] = ready;
    parallel role by 2 : group-4 {
      inthreads.async (role == 0) {
        foreach {n} in [cdiv(K, 32)] {
          wait freed.at(n);
          la = tma.load.async a.subspan(32, 32).at(bm, n).zfill => ta[n % STAGES];
          lb = tma.load.async b.subspan(16, 32).at(bn, n).zfill => tb[n % STAGES];
          trigger have.at(n) after la, lb;
        }
      }
      inthreads.async (role == 1) {
        acc = mma.fill.f32 0.0f;
        foreach {n} in [cdiv(K, 32)] {
          wait have.at(n);
          s = mma.row.row.async acc, ta[n % STAGES], tb[n % STAGES];
          wait s;
          trigger freed.at(n);
        }
        mma.store acc, c.subspan(32, 16).at(bm, bn);
      }
    }
  }
}
"""


@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize("k", [32, 100, 161])
def test_tile_product_of_loader_and_multiplier(stages: int, k: int) -> None:
    function = croq.compile(PRODUCT, defines={"STAGES": str(stages)}).f
    a = (np.arange(96 * k).reshape(96, k) % 11 - 5).astype(np.float16)
    b = (np.arange(48 * k).reshape(48, k) % 7 - 3).astype(np.float16)
    c = np.zeros((96, 48), np.float32)
    function(a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


def test_one_loader_and_two_consumers() -> None:
    """A generation of `freed` is complete when both consumers have arrived."""
    source = """
        __co__ s32 [2, 6, 32] f(s32 [6, 64] x) {
          s32 [2, 6, 32] r;
          parallel b by 1 : block {
            shared s32 [64] slot[2];
            shared event have[2], freed[2] = ready;
            parallel w by 3 : group, t by 32 : thread {
              inthreads.async (w == 0) {
                foreach n in 6 {
                  wait freed.at(n);
                  slot[n % 2].at(t) = x.at(n, t);
                  slot[n % 2].at(t + 32) = x.at(n, t + 32);
                  trigger have.at(n);
                }
              }
              inthreads.async (w > 0) {
                foreach n in 6 {
                  wait have.at(n);
                  r.at(w - 1, n, t) = slot[n % 2].at((w - 1) * 32 + 31 - t);
                  trigger freed.at(n);
                }
              }
            }
          }
          return r;
        }
    """
    x = np.arange(384, dtype=np.int32).reshape(6, 64)
    expect = np.stack([x[:, :32][:, ::-1], x[:, 32:][:, ::-1]])
    np.testing.assert_array_equal(croq.compile(source).f(x), expect)


@pytest.mark.races
@pytest.mark.parametrize("threads, expect", [("<64>", {2, 3}), ("<96>", {3})])
def test_event_that_says_how_many_arrive(threads: str, expect: set[int]) -> None:
    """Two roles of 32 and 64 threads share an event. With 96 arrivals both are needed, and the waiter sees what both
    stored; with 64 two warps are enough."""
    source = f"""
        __co__ s32 [32] f() {{
          s32 [32] r;
          parallel b by 1 : block {{
            shared s32 [3] s;
            shared event{threads} done;
            parallel w by 4 : group, t by 32 : thread {{
              inthreads.async (w == 0) {{ s.at(0) = 1; trigger done; }}
              inthreads.async (w == 1 || w == 2) {{ s.at(w) = 1; trigger done; }}
              inthreads.async (w == 3) {{ wait done; r.at(t) = s.at(0) + s.at(1) + s.at(2); }}
            }}
          }}
          return r;
        }}
    """
    result = croq.compile(source).f()
    assert set(result) <= expect


def test_roles_chosen_by_the_thread() -> None:
    source = """
        __co__ s32 [6, 32] f(s32 [6, 32] x) {
          s32 [6, 32] r;
          parallel b by 1 : block {
            shared s32 [32] slot[2];
            shared event have[2], freed[2] = ready;
            parallel t by 96 : thread {
              lane = t % 32;
              inthreads.async (t < 32) {
                foreach n in 6 { wait freed.at(n); slot[n % 2].at(lane) = x.at(n, lane) * 3; trigger have.at(n); }
              }
              inthreads.async (t >= 64) {
                foreach n in 6 { wait have.at(n); r.at(n, lane) = slot[n % 2].at(31 - lane); trigger freed.at(n); }
              }
            }
          }
          return r;
        }
    """
    x = np.arange(192, dtype=np.int32).reshape(6, 32)
    np.testing.assert_array_equal(croq.compile(source).f(x), x[:, ::-1] * 3)


@pytest.mark.races
def test_one_thread_of_a_role_arrives_for_all() -> None:
    source = """
        __co__ s32 [4, 32] f(s32 [4, 32] x) {
          s32 [4, 32] r;
          parallel b by 1 : block {
            shared s32 [32] slot;
            shared event have, freed = ready;
            parallel w by 2 : group, t by 32 : thread {
              inthreads.async (w == 0) {
                foreach n in 4 {
                  wait freed;
                  slot.at(t) = x.at(n, t);
                  inthreads (t == 5) { trigger have; }
                }
              }
              inthreads.async (w == 1) {
                foreach n in 4 {
                  wait have;
                  r.at(n, t) = slot.at(31 - t);
                  inthreads (t == 31) { trigger freed; }
                }
              }
            }
          }
          return r;
        }
    """
    x = np.arange(128, dtype=np.int32).reshape(4, 32)
    np.testing.assert_array_equal(croq.compile(source).f(x), x[:, ::-1])


def test_spinning_until_an_event_is_ready() -> None:
    source = """
        __co__ s32 [32] f(s32 [32] x) {
          s32 [32] r;
          parallel b by 1 : block {
            shared s32 [32] s;
            shared event one, two;
            parallel w by 3 : group, t by 32 : thread {
              inthreads.async (w == 0) { while (one && two); r.at(t) = s.at(31 - t); }
              inthreads.async (w == 1) { s.at(t) = x.at(t) + 1; trigger one; }
              inthreads.async (w == 2) { while (one); s.at(t) = s.at(t) * 2; trigger two; }
            }
          }
          return r;
        }
    """
    x = np.arange(32, dtype=np.int32)
    np.testing.assert_array_equal(croq.compile(source).f(x), ((x + 1) * 2)[::-1])


@pytest.mark.cpu_only  # compilers of GPUs take the load out of the loop
def test_loop_that_waits_for_a_flag_in_shared_storage() -> None:
    source = """
        __co__ s32 [32] f(s32 [32] x) {
          s32 [32] r;
          parallel b by 1 : block {
            shared s32 [32] s;
            shared s32 [1] flag {0};
            parallel w by 2 : group, t by 32 : thread {
              inthreads.async (w == 0) { while (flag.at(0) < 32) { } r.at(t) = s.at(31 - t); }
              inthreads.async (w == 1) { s.at(t) = x.at(t); __atomic_add(flag.at(0), 1); }
            }
          }
          return r;
        }
    """
    x = np.arange(32, dtype=np.int32)
    np.testing.assert_array_equal(croq.compile(source).f(x), x[::-1])


def test_event_of_each_group() -> None:
    """A `local` event belongs to a group: four groups with rings of their own."""
    source = """
        __co__ s32 [4, 5, 16] f(s32 [4, 5, 16] x) {
          s32 [4, 5, 16] r;
          parallel b by 1 : block {
            shared s32 [4, 16] slot;
            parallel w by 4 : group, t by 32 : thread {
              local event have, freed = ready;
              inthreads.async (t < 16) {
                foreach n in 5 + w { wait freed; if (n < 5) slot.at(w, t) = x.at(w, n, t) + w; trigger have; }
              }
              inthreads.async (t >= 16) {
                foreach n in 5 + w { wait have; if (n < 5) r.at(w, n, t - 16) = slot.at(w, 31 - t); trigger freed; }
              }
            }
          }
          return r;
        }
    """
    x = np.arange(320, dtype=np.int32).reshape(4, 5, 16)
    expect = (x + np.arange(4, dtype=np.int32)[:, None, None])[:, :, ::-1]
    np.testing.assert_array_equal(croq.compile(source).f(x), expect)


def test_three_stages_and_a_tile_loop_around_them() -> None:
    """Load, square, store; the ring begins anew for each of the tiles that the block works on."""
    source = """
        __co__ s32 [3, 4, 32] f(s32 [3, 4, 32] x) {
          s32 [3, 4, 32] r;
          parallel b by 1 : block {
            foreach tile in 3 {
              shared s32 [32] raw[2];
              shared s32 [32] out[2];
              shared event loaded[2], squared[2], raw_free[2] = ready, out_free[2] = ready;
              parallel w by 3 : group, t by 32 : thread {
                inthreads.async (w == 0) {
                  foreach n in 4 { wait raw_free.at(n); raw[n % 2].at(t) = x.at(tile, n, t); trigger loaded.at(n); }
                }
                inthreads.async (w == 1) {
                  foreach n in 4 {
                    wait loaded.at(n), out_free.at(n);
                    out[n % 2].at(t) = raw[n % 2].at(t) * raw[n % 2].at(t);
                    trigger squared.at(n), raw_free.at(n);
                  }
                }
                inthreads.async (w == 2) {
                  foreach n in 4 {
                    wait squared.at(n);
                    r.at(tile, n, t) = out[n % 2].at(31 - t);
                    trigger out_free.at(n);
                  }
                }
              }
            }
          }
          return r;
        }
    """
    x = np.arange(384, dtype=np.int32).reshape(3, 4, 32)
    np.testing.assert_array_equal(croq.compile(source).f(x), (x * x)[:, :, ::-1])


def test_two_regions_share_an_event() -> None:
    """What a first region of roles triggered, a second one has still to wait for."""
    source = """
        __co__ s32 [32] f(s32 [32] x) {
          s32 [32] r;
          parallel b by 1 : block {
            shared s32 [32] s;
            shared event done, again;
            parallel w by 2 : group, t by 32 : thread {
              inthreads.async (w == 0) { s.at(t) = x.at(t); trigger done; }
              inthreads.async (w == 1) { wait done; s.at(t) = s.at(t) * 2; trigger again; }
            }
            parallel v by 2 : group, u by 32 : thread {
              inthreads.async (v == 0) { wait again; s.at(u) = s.at(u) + 1; trigger done; }
              inthreads.async (v == 1) { wait done; r.at(u) = s.at(31 - u); }
            }
          }
          return r;
        }
    """
    x = np.arange(32, dtype=np.int32)
    np.testing.assert_array_equal(croq.compile(source).f(x), (2 * x + 1)[::-1])


def test_all_slots_at_once_and_slots_in_two_dimensions() -> None:
    source = """
        __co__ s32 [6] f() {
          s32 [6] r;
          parallel b by 1 : block {
            shared s32 [6] s;
            shared event e[2][3];
            parallel w by 2 : group, t by 32 : thread {
              inthreads.async (w == 0) {
                foreach i in 2 { foreach j in 3 { if (t == 0) s.at(3 * i + j) = 10 * i + j; trigger e[i][j]; } }
              }
              inthreads.async (w == 1) { wait e; if (t < 6) r.at(t) = s.at(t); }
            }
          }
          return r;
        }
    """
    np.testing.assert_array_equal(croq.compile(source).f(), [0, 1, 2, 10, 11, 12])


def test_named_barriers_between_roles() -> None:
    """Two producers arrive and go on, the consumer waits for both; then all three meet."""
    source = """
        __co__ s32 [4, 64] f(s32 [4, 64] x) {
          s32 [4, 64] r;
          parallel b by 4 : block {
            shared s32 [64] s;
            shared s32 [64] u;
            parallel w by 3 : group, t by 32 : thread {
              inthreads.async (w < 2) {
                s.at(w * 32 + t) = x.at(b, w * 32 + t);
                __bar_arrive(1, 96);
                __bar_sync(2, 96);
                r.at(b, w * 32 + t) = u.at(w * 32 + t);
              }
              inthreads.async (w == 2) {
                __bar_sync(1, 96);
                u.at(t) = s.at(63 - t);
                u.at(t + 32) = s.at(31 - t);
                __bar_sync(2, 96);
              }
            }
          }
          return r;
        }
    """
    x = np.arange(256, dtype=np.int32).reshape(4, 64)
    np.testing.assert_array_equal(croq.compile(source).f(x), x[:, ::-1])


def test_statements_of_a_group_between_its_threads() -> None:
    """Group statements, threads with a barrier of the block, and group statements again."""
    source = """
        __co__ s32 [3, 32] f(s32 [3, 32] x) {
          s32 [3, 32] r;
          parallel b by 1 : block {
            shared s32 [3, 32] s;
            shared s32 [3] factor;
            shared event go;
            parallel w by 3 : group {
              factor.at(w) = w + 2;
              sync.barrier : group;
              parallel t by 32 : thread {
                s.at(w, t) = x.at(w, t) * factor.at(w);
                sync.shared;
                r.at(w, t) = s.at((w + 1) % 3, 31 - t);
                inthreads.async (w == 0) { trigger go; }
                inthreads.async (w == 2) { wait go; }
              }
              r.at(w, 0) = r.at(w, 0) + 1;
            }
          }
          return r;
        }
    """
    x = np.arange(96, dtype=np.int32).reshape(3, 32)
    s = x * np.array([2, 3, 4], np.int32)[:, None]
    expect = np.roll(s, -1, axis=0)[:, ::-1].copy()
    expect[:, 0] += 1
    np.testing.assert_array_equal(croq.compile(source).f(x), expect)


def test_threads_that_yield_are_not_expected_any_more() -> None:
    source = """
        __co__ s32 [4, 64] f(s32 [4, 64] x) {
          s32 [4, 64] r;
          parallel b by 4 : block {
            shared s32 [64] s;
            parallel w by 2 : group, t by 32 : thread {
              s.at(w * 32 + t) = x.at(b, w * 32 + t);
              sync.shared;
              if (t > 20) yield;
              sync.shared;
              r.at(b, w * 32 + t) = s.at(63 - w * 32 - t);
              sync.barrier : group;
              if (t > 10) yield;
              foreach k in 3 { sync.shared; sync.barrier : group; r.at(b, w * 32 + t) += 1; }
            }
          }
          return r;
        }
    """
    x = np.arange(256, dtype=np.int32).reshape(4, 64)
    lane = np.arange(64) % 32
    expect = np.where(lane > 20, 0, x[:, ::-1] + 3 * (lane < 11))
    np.testing.assert_array_equal(croq.compile(source).f(x), expect)


@pytest.mark.gpu_refuses("UNS01")  # threads that data select
def test_number_of_groups_that_the_block_knows() -> None:
    source = """
        __co__ s32 [3, 6, 32] f(s32 [32] x, int n) {
          s32 [3, 6, 32] r;
          parallel b by 3 : block {
            groups = n + b;
            last = groups - 1;
            shared s32 [32] s;
            shared event go;
            parallel w by groups : group, t by 32 : thread {
              inthreads.async (w == 0) { s.at(t) = x.at(t) * last; trigger go; }
              inthreads.async (w > 0) { wait go; r.at(b, w, t) = s.at(31 - t); }
            }
          }
          return r;
        }
    """
    x = np.arange(32, dtype=np.int32)
    expect = np.zeros((3, 6, 32), np.int32)
    for b in range(3):
        expect[b, 1 : 4 + b] = x[::-1] * (3 + b)
    np.testing.assert_array_equal(croq.compile(source).f(x, 4), expect)
