"""The CPU target as the pipeline uses it: C++ text of cells, complaints of the compiler, calls."""

from __future__ import annotations

import pickle
import signal

import ml_dtypes
import numpy as np
import pytest
from processes import in_threads, python

from croq_magic.compiler import ir
from croq_magic.compiler.diagnostics import Report
from croq_magic.compiler.source import Source
from croq_magic.compiler.split import split
from croq_magic.compiler.targets import choose
from croq_magic.compiler.targets.cpu import complaints, verbatim
from croq_magic.compiler.types import BF16, F16, F32, F64, S8, S32, U64, DType
from croq_magic.errors import CompileError, TargetError
from tests import ir_builders as b
from tests.targets.run_ir import emitted, numpy_type, run

PROGRAM = """\
#include <algorithm>
#define WIDTH 4
struct Pair { int a, b; };
static int helper(int v) { return v + WIDTH; }
int unused(choreo::s32 v);
template <int N> __device__ int scaled(Pair p) { return N * helper(p.a); }
__co__ void f(s32 [4] x) { parallel p by 4 x.at(p) = 0; }
int main() { f(choreo::make_spanview<1>(nullptr, {4})); }
"""


def pieces(text: str) -> list[str]:
    return [span.text.strip() for span in verbatim.device_text(split(Source(text), Report()))]


def test_device_text_takes_what_device_functions_need() -> None:
    assert pieces(PROGRAM) == [
        "#include <algorithm>",
        "#define WIDTH 4",
        "struct Pair { int a, b; };",
        "static int helper(int v) { return v + WIDTH; }",
        "template <int N>",
        "__device__ int scaled(Pair p) { return N * helper(p.a); }",
    ]


def test_no_device_function_no_host_text() -> None:
    assert pieces("#include <iostream>\n__co__ void f() {}\nint main() { f(); }\n") == []


def test_separate_device_block() -> None:
    assert pieces('__cok__ { extern "C" void k(int* a) { a[0] = 1; } }\n__co__ void f() {}') == [
        'extern "C" void k(int* a) { a[0] = 1; }'
    ]


def test_macros_of_the_cell_do_not_rewrite_generated_text() -> None:
    text = "#define end 5\n#define output nothing\n#define croq_stop oops\n" + (
        "__device__ void kernel(int* a, int* b, int* c, int n) {\n"
        "  for (int i = 0; i < n; ++i) c[i] = a[i] + b[i] + end;\n}\n"
    )
    unit = split(Source(text), Report())
    target = choose("cpu")
    emission = target.emit(unit, [b.ele_add()])
    x = np.arange(6 * 17 * 128, dtype=np.int32).reshape(6, 17, 128)
    out = np.zeros_like(x)
    target.build(emission, b.ele_add()).launch((x, x), {}, out)
    np.testing.assert_array_equal(out, 2 * x + 5)


def refused(text: str, function: ir.Function) -> CompileError:
    target = choose("cpu")
    emission = target.emit(split(Source(text, first_line=2), Report()), [function])
    with pytest.raises(CompileError) as caught:
        target.build(emission, function)
    return caught.value


def test_complaint_about_a_device_function_has_its_line_and_column() -> None:
    text = "// text\n__device__ int helper(int v) {\n  return v + missing;\n}\n" + (
        "__device__ void kernel(int*, int*, int*, int) {}\n"
    )
    (found,) = refused(text, b.ele_add()).diagnostics
    assert (found.code, found.span.line, found.span.column) == ("CXX01", 4, 14)
    assert found.message.startswith("the C++ compiler says: ") and "`missing`" in found.message
    assert found.span.text == "missing"


def test_complaint_about_a_call_is_at_the_statement() -> None:
    text = "__device__ void kernel(float* a, int n) {}\n__co__ void f() {\n  call kernel(x, y);\n}\n"
    source = Source(text, first_line=2)
    start = text.index("call")
    base = b.ele_add()
    span = source.span(start, start + len("call kernel(x, y);"))

    def place(node: ir.Node) -> ir.Node | None:
        import dataclasses

        return dataclasses.replace(node, span=span) if isinstance(node, ir.Call) else None

    from croq_magic.compiler.visit import rewrite

    function = rewrite(base, place)
    target = choose("cpu")
    emission = target.emit(split(source, Report()), [function])
    with pytest.raises(CompileError) as caught:
        target.build(emission, function)
    first = caught.value.diagnostics[0]
    assert (first.span.line, first.span.text) == (4, "call kernel(x, y);")


def test_messages_of_clang() -> None:
    source = Source("one\ntwo three\n")
    output = (
        "cell:2:5: error: use of undeclared identifier 'three'\n  two three\n      ^\n"
        "cell:1:1: note: declared here\n1 error"
    )
    (found,) = complaints.diagnostics(output, source, [source.whole()])
    assert found.message == "the C++ compiler says: use of undeclared identifier `three`"
    assert (found.span.line, found.span.column, found.span.text) == (2, 5, "three")
    assert found.notes[0].message == "declared here" and found.notes[0].span is not None
    assert complaints.diagnostics("/tmp/module.cpp:3:4: error: generated", source, []) == []


def test_unsupported_construct_is_a_diagnostic() -> None:
    source = Source("mma.commit;")
    function = ir.Function("f", (), None, (ir.MmaCommit(span=source.whole()),))
    with pytest.raises(CompileError) as caught:
        choose("cpu").emit(split(source, Report()), [function])
    assert [d.code for d in caught.value.diagnostics] == ["UNS01"]


def test_registry() -> None:
    assert choose("auto").name == choose("cc").name == "cpu"
    with pytest.raises(TargetError, match="no target `tpu`; known are auto, cpu"):
        choose("tpu")
    with pytest.raises(TargetError, match="no architecture `sm_90`"):
        choose("cpu", "sm_90")


def test_emission_can_be_pickled() -> None:
    emission = emitted(b.matmul_dma())
    assert pickle.loads(pickle.dumps(emission)) == emission


@pytest.mark.parametrize(
    "dtype, value",
    [
        (S8, -5),
        (S32, -(1 << 31)),
        (U64, (1 << 64) - 1),
        (F32, 0.1),
        (F64, 0.1),
        (F16, 0.1),
        (BF16, 0.1),
        (ir.BOOL, True),
    ],
)
def test_scalar_parameters_and_results_of_every_kind(dtype: DType, value: float) -> None:
    var = ir.Var("v", dtype, ir.Role.PARAM)
    function = ir.Function("f", (ir.Param("v", "scalar", dtype, var=var),), ir.Result(dtype, None), (ir.Return(var),))
    if dtype is BF16:
        pytest.importorskip("ml_dtypes")
        function = ir.Function("f", function.params, ir.Result(F32, None), (ir.Return(ir.Cast(var, F32)),))
        assert run(function, value) == np.float32(ml_dtypes.bfloat16(value))
        return
    got = run(function, value)
    assert got == numpy_type(dtype).type(value) and got.dtype == numpy_type(dtype)


def test_calls_from_many_threads_at_once() -> None:
    from croq_magic.compiler.targets.cpu import module

    loaded = module.load(emitted(b.matmul_dma()), "matmul")
    rng = np.random.default_rng(0)

    def work(seed: int) -> None:
        lhs = rng.integers(-9, 9, (128, 256)).astype(np.int32)
        rhs = rng.integers(-9, 9, (256, 256)).astype(np.int32)
        expect = lhs @ rhs
        for _ in range(10):
            out = np.zeros((128, 256), np.int32)
            loaded.launch((lhs, rhs), {}, out)
            np.testing.assert_array_equal(out, expect)

    in_threads(work)


ENDLESS = """
    import os, signal, sys, threading, time
    import numpy as np
    from croq_magic.compiler import ir
    from croq_magic.compiler.types import BOOL, S32
    from croq_magic.compiler.targets.cpu import emit, module
    from tests import ir_builders as b
    x = b.param("x", (4,), written=True)
    p = b.index("p", 4, ir.Role.REGION)
    i = b.index("i", 1 << 40)
    kind = sys.argv[1]
    body = {
        "while": ir.While(ir.Binary(">=", b.at(x.buffer, p), b.const(0), BOOL), ()),
        "for": b.loop("i", 1 << 40, [b.store(x.buffer, (p,), ir.Binary("^", b.at(x.buffer, p), b.const(1), S32))]),
        "host": ir.While(ir.Binary(">=", b.at(x.buffer, b.const(0)), b.const(0), BOOL), ()),
        "region": b.region(ir.Level.THREAD, {"t": 1 << 30}, [
            b.loop("j", 10000, [b.store(x.buffer, (p,), ir.Binary("^", b.at(x.buffer, p), b.const(1), S32))])
        ]),
    }[kind]
    launch = body if kind == "host" else b.launch("f", b.region(ir.Level.BLOCK, {"p": 4}, [body]))
    loaded = module.load(emit.emit_module([ir.Function("f", (x,), None, (launch,))]), "f")
    def interrupt():
        time.sleep(0.4)
        global sent
        sent = time.perf_counter()
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()
    try:
        loaded.launch((np.zeros(4, np.int32),), {}, None)
    except KeyboardInterrupt:
        print(time.perf_counter() - sent)
"""


@pytest.mark.parametrize("kind", ["while", "for", "host", "region"])
def test_stop_button(kind: str) -> None:
    assert float(python(ENDLESS, kind)) < 0.5
    assert signal.SIGINT == 2


def test_float32_is_not_widened_by_scalars() -> None:
    var = ir.Var("v", F32, ir.Role.PARAM)
    product = ir.Binary("*", var, ir.Const(3.0, F32), F32)
    function = ir.Function("f", (ir.Param("v", "scalar", F32, var=var),), ir.Result(F32, None), (ir.Return(product),))
    assert run(function, 0.1) == np.float32(0.1) * np.float32(3.0)
