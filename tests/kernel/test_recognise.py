"""Which cells of the Croqtile kernel are Croqtile."""

from __future__ import annotations

import pytest

from croq_magic.kernel.recognise import code_only, is_closed, is_croqtile

FUNCTION = "__co__ void f(f32 [4]& x) {\n  parallel p by 4 { x.at(p) += 1.0f; }\n}\n"


@pytest.mark.parametrize(
    "cell",
    [
        FUNCTION,
        "// what it does\n" + FUNCTION,
        "#define N 4\n" + FUNCTION,
        "__device__ void g(int* a) {}\n" + FUNCTION,
        "\n\n" + FUNCTION,
        "__co__ void f( {",  # the compiler explains what is wrong with it
        "x = 3 +\n" + FUNCTION,
    ],
)
def test_croqtile(cell: str) -> None:
    assert is_croqtile(cell)


@pytest.mark.parametrize(
    "cell",
    [
        "x = 1",
        "",
        "source = '''\n" + FUNCTION + "'''",
        "source = '__co__ void f() {}'\n%timeit x",
        "%%croqtile -o out\n" + FUNCTION,
        "%%writefile f.co\n" + FUNCTION,
        "!grep __co__ f.co",
        "__co__ = 3",
        "await something(__co__)",
        "print('unfinished __co__ void f() {'",  # broken Python stays Python
        "print(1 // '__co__'",
        "x = (1 # __co__\n",
        "void f() { my__co__x(); }",
    ],
)
def test_python(cell: str) -> None:
    assert not is_croqtile(cell)


def test_blanked_text_keeps_places() -> None:
    text = 'a /* b\nc */ "d//" e // f\n\'"\' g'
    blanked = code_only(text)
    assert len(blanked) == len(text) and blanked.count("\n") == 2
    assert blanked.split() == ["a", "e", "g"]
    assert blanked.index("e") == text.index(" e ") + 1


def test_closed() -> None:
    assert is_closed(FUNCTION)
    assert not is_closed("__co__ void f() {\n")
    assert not is_closed('__co__ void f() {\n  print("}");')
    assert not is_closed("__co__ void f(")
