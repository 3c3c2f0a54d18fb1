"""`-n` drops comments of host text and nothing else."""

from __future__ import annotations

from croq_magic.compiler.source import Source
from croq_magic.driver.comments import without_comments


def test_comments_go_and_places_stay() -> None:
    text = """\
#define N 4 // four
/* top
   of it */ int a; /* mid */ int b; // end
const char* s = "// no /* comment */";  // one
char c = '"'; /* x */
auto r = R"(// raw /* )"; // two \\
goes on
__co__ void f(s32 [N]& x) { // kept
  x.at(0) = 1; /* kept */
}
int z; // last"""
    found = without_comments(Source(text, "a.co"))
    assert found.name == "a.co"
    assert found.text.split("\n") == [
        "#define N 4",
        "",
        "            int a;           int b;",
        'const char* s = "// no /* comment */";',
        "char c = '\"';",
        'auto r = R"(// raw /* )";',
        "",
        "__co__ void f(s32 [N]& x) { // kept",
        "  x.at(0) = 1; /* kept */",
        "}",
        "int z;",
    ]
