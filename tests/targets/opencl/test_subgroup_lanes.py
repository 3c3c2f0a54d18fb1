"""Reductions over threads of a subgroup: their functions, with another function in the place of the shuffle."""

from __future__ import annotations

import numpy as np
import pytest
from targets.opencl.opencl_devices import each_device, features

from croq_magic.compiler.passes.share_fragments import ShareFragments
from croq_magic.compiler.targets.emit_cxx import Unsupported
from croq_magic.compiler.targets.opencl import build, devices
from croq_magic.compiler.targets.opencl.dialect import OpenclDialect
from croq_magic.compiler.targets.opencl.passes import passes
from croq_magic.compiler.types import F32, S32

TEXT = """#define cl_khr_subgroup_shuffle 1
#define sub_group_shuffle_xor(value, distance) ((value) * 3 - (distance))
#include "croq_opencl.h"
__kernel void lanes(__global s32* a, __global f32* b) {
  const int t = (int)get_global_id(0);
  a[t] = %s;
  b[t] = %s;
}
"""


@each_device
def test_values_pass_between_lanes_at_falling_distances(arch: str) -> None:
    import pyopencl as cl

    device = devices.choose(arch)
    dialect = OpenclDialect(features(arch)._replace(shuffles=True))
    total = dialect.combine_lanes("sum", S32, 32, 4, "a[t]")
    top = dialect.combine_lanes("max", F32, 8, 1, "b[t]")
    assert dialect.subgroups_used
    text = build.complete(TEXT % (total, top))
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    program = cl.Program(context, text).build(build.options(features(arch)))
    a, b = np.array([5, -7, 0, 11, 2], np.int32), np.array([1.5, -2.0, np.nan, 0.0, 9.0], np.float32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    places = [cl.Buffer(context, flags, hostbuf=each) for each in (a, b)]
    program.lanes(queue, (5,), None, *places)
    expected_a, expected_b = a.copy(), b.copy()
    for distance in (16, 8, 4):
        expected_a = expected_a + expected_a * 3 - distance
    for distance in (4, 2, 1):
        expected_b = np.fmax(expected_b, expected_b * 3 - distance)
    for place, expected in zip(places, (expected_a, expected_b), strict=True):
        got = np.empty_like(expected)
        cl.enqueue_copy(queue, got, place)
        np.testing.assert_array_equal(got, expected)


@each_device
def test_only_devices_with_shuffles_get_them(arch: str) -> None:
    found = features(arch)
    for cpu, shuffles in ((False, True), (False, False), (True, True)):
        chosen = passes(found._replace(cpu=cpu, shuffles=shuffles))
        (share,) = (each for each in chosen if isinstance(each, ShareFragments))
        assert share.shuffles == (shuffles and not cpu)
    with pytest.raises(Unsupported, match="threads of a warp"):
        OpenclDialect(found._replace(shuffles=False)).combine_lanes("sum", S32, 32, 1, "x")
