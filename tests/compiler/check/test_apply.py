"""`.at` inside `apply`: a thread reaches the elements that it owns, and no others."""

from __future__ import annotations

import pytest

import croq_magic as croq

CELL = """__co__ f32 [16, 8] f(f32 [16, 8] x) {{
  f32 [16, 8] r;
  parallel b by 1 : block, t by 32 : thread {{
    frag f32 [16, 8] s {{1.0f}};
    frag f32 [8, 16] u {{1.0f}};
    frag f32 [16] rows {{1.0f}};
    frag f32 [8] columns {{1.0f}};
    {body}
    apply {{i, j}} in s.span r.at(i, j) = s.at(i, j);
  }}
  return r;
}}
"""


@pytest.mark.parametrize(
    "body",
    [
        "apply {i, j} in s.span s.at(i, j) *= 2.0f;",
        "apply {i, j} in s.span { k = j; s.at(i, k) = x.at(15 - i, 7 - j) + rows.at(i) * columns.at(j); }",
        "apply {i, j} in s.span { rows.at(i) += s.at(i, j); columns.at(j) += s.at(i, j); }",
        "apply {i} in rows.span rows.at(i) *= 2.0f;",
    ],
)
def test_own_elements(body: str) -> None:
    assert croq.check(CELL.format(body=body), target="cpu") == []


@pytest.mark.parametrize(
    ("body", "element", "hint"),
    [
        ("apply {i, j} in s.span s.at(i, j) = s.at(i, 7 - j);", "s.at(i, 7 - j)", "`s.at(i, j)`"),
        ("apply {i, j} in s.span s.at(i, 0) = 1.0f;", "s.at(i, 0)", "`s.at(i, j)`"),
        ("apply {i, j} in u.span u.at(i, j) = s.at(j, i);", "s.at(j, i)", "`apply` over `s`"),
        ("apply {i, j} in s.span s.at(i, j) = columns.at(j - j % 2);", "columns.at(j - j % 2)", "`columns.at(j)`"),
        ("{ i = 1; r.at(0, i) = 1.0f; } apply {i, j} in s.span s.at(i, j) = s.at(i, 1);", "s.at(i, 1)", "`s.at(i, j)`"),
        ("apply {i} in rows.span rows.at(i) = s.at(i, 0);", "s.at(i, 0)", "`apply` over `s`"),
    ],
)
def test_elements_of_other_threads(body: str, element: str, hint: str) -> None:
    found = croq.check(CELL.format(body=body), target="cpu")
    assert [(d.code, d.message, d.hint, d.span.text, d.span.line) for d in found] == [
        ("MMA16", f"`{element}` in `apply` may belong to another thread", hint, element, 8)
    ]
