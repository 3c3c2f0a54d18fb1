"""What holds for every figure: it is drawn without global state, nothing overlaps, colours can be told apart."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable

import ir_builders as build
import pytest

from croq_magic import viz
from croq_magic.compiler import ir
from croq_magic.viz import theme


def many_dimensions(rank: int) -> ir.Function:
    """Copies an array of the given rank, chunk by chunk, blocks in the first dimension, loops in the others."""
    shape = (4, 6, 3, 8, 10)[-rank:]
    x, out = build.param("x", shape), build.buffer("output", shape)
    names = [f"i{d}" for d in range(rank)]
    block = build.index(names[0], shape[0] // 2 or 1, ir.Role.REGION)
    loops = [build.index(n, max(1, e // 2)) for n, e in zip(names[1:], shape[1:], strict=True)]
    part = [e // (e // 2) if i == 0 else e // max(1, e // 2) for i, e in enumerate(shape)]
    origin = [build.times(v, build.const(e)) for v, e in zip([block, *loops], part, strict=True)]
    tile = build.buffer("tile", part, storage=ir.Storage.LOCAL)
    assert x.buffer is not None
    body: list[ir.Stmt] = [
        ir.Declare(tile),
        build.copy(build.chunk(x.buffer, origin, part), tile),
        build.copy(tile, build.chunk(out, origin, part)),
    ]
    for name, extent in reversed(list(zip(names[1:], shape[1:], strict=True))):
        body = [build.loop(name, max(1, extent // 2), body)]
    kernel = build.region(build.BLOCK, {names[0]: shape[0] // 2 or 1}, body)
    return build.returning(f"copy{rank}", (x,), out, [build.launch("copy", kernel)])


FIGURES: dict[str, Callable[[str], viz.Diagram]] = {
    "matmul-tiling": lambda t: viz.tiling(build.matmul_dma(), theme=t),
    "matmul-mapping": lambda t: viz.mapping(build.matmul_dma(), theme=t),
    "matmul-trace": lambda t: viz.trace(build.matmul_dma(), output=(37, 50), theme=t),
    "scalar-tiling": lambda t: viz.tiling(build.matmul_scalar(), theme=t),
    "scalar-trace": lambda t: viz.trace(build.matmul_scalar(), output=(127, 255), theme=t),
    "large-tiling": lambda t: viz.tiling(build.matmul_dma(4096, 4096, 8192), theme=t),
    "large-mapping": lambda t: viz.mapping(build.matmul_dma(4096, 4096, 8192), theme=t),
    "large-trace": lambda t: viz.trace(build.matmul_dma(4096, 4096, 8192), output=(4095, 8191), theme=t),
    "add-tiling": lambda t: viz.tiling(build.ele_add(), theme=t),
    "add-mapping": lambda t: viz.mapping(build.ele_add(), theme=t),
    "add-trace": lambda t: viz.trace(build.ele_add(), output=(3, 5, 70), theme=t),
    "saxpy-tiling": lambda t: viz.tiling(build.saxpy(1000), theme=t),
    "huge-tiling": lambda t: viz.tiling(build.saxpy(100_000_000), theme=t),
    "row-sum-tiling": lambda t: viz.tiling(build.row_sum(), theme=t),
    "row-sum-mapping": lambda t: viz.mapping(build.row_sum(), theme=t),
    "one-block-tiling": lambda t: viz.tiling(build.matmul_dma(16, 16, 16), theme=t),
    "one-block-trace": lambda t: viz.trace(build.matmul_dma(16, 16, 16), output=(0, 0), theme=t),
    **{f"rank-{r}-tiling": lambda t, r=r: viz.tiling(many_dimensions(r), theme=t) for r in range(1, 6)},
    **{f"rank-{r}-trace": lambda t, r=r: viz.trace(many_dimensions(r), (1,) * r, theme=t) for r in range(1, 6)},
}


@pytest.mark.parametrize("name", FIGURES)
def test_texts_neither_overlap_nor_leave_the_page(name: str) -> None:
    figure = FIGURES[name]("light").figure
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    page = figure.bbox
    boxes = [(t.get_text(), t.get_window_extent(renderer)) for t in figure.axes[0].texts if t.get_text().strip()]
    for text, box in boxes:
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1, text
    for (first, a), (second, b) in itertools.combinations(boxes, 2):
        width = min(a.x1, b.x1) - max(a.x0, b.x0)
        height = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert width <= 1 or height <= 3, f"{first!r} and {second!r} overlap"


@pytest.mark.parametrize("name", ["matmul-tiling", "matmul-mapping", "matmul-trace"])
@pytest.mark.parametrize("style", ["light", "dark", "auto"])
def test_pictures_are_png_of_the_stated_size(name: str, style: str) -> None:
    data, metadata = FIGURES[name](style)._repr_mimebundle_()
    assert data["image/png"].startswith(b"\x89PNG")
    assert len(data["image/png"]) < 150_000
    assert data["text/plain"] == FIGURES[name](style).text
    width, height = FIGURES[name](style).figure.get_size_inches()
    assert metadata["image/png"] == {"width": round(width * 96), "height": round(height * 96)}


def test_a_diagram_saves_itself(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    diagram = FIGURES["matmul-trace"]("dark")
    for name in ("a.png", "a.svg", "a.pdf"):
        assert diagram.save(folder / name).stat().st_size > 1000
    assert diagram.svg().lstrip().startswith("<?xml")


@pytest.mark.parametrize("style", [theme.LIGHT, theme.DARK])
def test_colours_can_be_told_apart_without_hue(style: theme.Theme) -> None:
    assert theme.contrast(style.ink, style.card) > 12
    assert theme.contrast(style.soft, style.card) > 5
    assert theme.contrast(style.accent, style.card) > 5
    for kind in style.ramps:
        ramp = [style.owner(kind, i / 7) for i in range(8)]
        steps = [theme.luminance(c) for c in ramp]
        assert steps == sorted(steps, reverse=style.name == "light")
        assert theme.contrast(ramp[0], ramp[-1]) > 4
        assert all(theme.contrast(style.on(c), c) > 4 for c in ramp)
        assert theme.contrast(style.on(ramp[0]), ramp[0]) > 7  # the ground of program text


def test_auto_is_the_theme_of_the_settings() -> None:
    try:
        theme.set_default("dark")
        assert theme.choose("auto") is theme.DARK and theme.choose("light") is theme.LIGHT
        drawn = viz.tiling(build.saxpy()).figure.get_facecolor()
        assert drawn == viz.tiling(build.saxpy(), theme="dark").figure.get_facecolor()
    finally:
        theme.set_default("light")
    assert theme.choose("auto") is theme.LIGHT
    assert viz.tiling(build.saxpy()).figure.get_facecolor() != drawn


@pytest.mark.parametrize("size", [(16, 16, 16), (64, 128, 64), (4096, 4096, 8192)])
def test_the_sum_of_threads_is_not_broken(size: tuple[int, int, int]) -> None:
    figure = viz.mapping(build.matmul_dma(*size)).figure
    texts = [text.get_text().replace("\u00a0", " ") for text in figure.axes[0].texts]
    total = f"{size[0] * size[2]:,} threads"
    assert any(text.endswith(f"= {total}") for text in texts), texts


def test_an_unknown_theme() -> None:
    with pytest.raises(ValueError, match='must be "light", "dark" or "auto"'):
        viz.tiling(build.saxpy(), theme="blue")


def test_matplotlib_is_loaded_late_and_pyplot_never() -> None:
    code = """
import sys
sys.path.insert(0, "tests")
import ir_builders as build
from croq_magic import viz
diagram = viz.tiling(build.matmul_dma())
assert diagram.text and "matplotlib" not in sys.modules
diagram.png()
assert "matplotlib" in sys.modules and "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_diagram_in_ipython() -> None:
    from IPython.core.formatters import DisplayFormatter

    data, metadata = DisplayFormatter().format(FIGURES["matmul-mapping"]("auto"))
    assert set(data) == {"image/png", "text/plain"}
    assert data["text/plain"].startswith("mapping of matmul")
    assert set(metadata) == {"image/png"}


def test_functions_of_the_public_api_are_accepted() -> None:
    class Callable:
        ir_function = build.matmul_dma()

    assert viz.tiling(Callable()).title == "tiling of matmul"
    with pytest.raises(TypeError, match="a tileflow function is needed, not int"):
        viz.tiling(3)
