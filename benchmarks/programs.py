"""The tileflow programs that are measured, for any type and size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

DMA = """\
__co__ {t} [{m}, {n}] matmul({t} [{m}, {k}] lhs, {t} [{k}, {n}] rhs) {{
  {t} [lhs.span(0), rhs.span(1)] output;

  parallel {{px, py}} by [{m} / 16, {n} / 16] : block {{
    foreach {{tile_k}} in [{k} / 16] {{
      lhs_load = dma.copy lhs.chunkat(px, tile_k) => shared;
      rhs_load = dma.copy rhs.chunkat(tile_k, py) => shared;

      parallel {{qx, qy}} by [16, 16] : thread {{
        foreach k in [{k} / #tile_k]
          output.at(px#qx, py#qy) += lhs_load.data.at(qx, k) * rhs_load.data.at(k, qy);
      }}
    }}
  }}

  return output;
}}
"""

SCALAR = """\
__co__ {t} [{m}, {n}] matmul({t} [{m}, {k}] lhs, {t} [{k}, {n}] rhs) {{
  {t} [lhs.span(0), rhs.span(1)] output;

  parallel p by 16, q by 64 {{
    foreach index = {{m, n, k}} in [{m} / #p, {n} / #q, {k}]
      output.at(p#m, q#n) += lhs.at(p#m, k) * rhs.at(k, q#n);
  }}

  return output;
}}
"""

ADD = """\
__co__ void add(global {t} [{rows}, {columns}] a, global {t} [{rows}, {columns}] b, global {t} [{rows}, {columns}] c) {{
  parallel {{i, j}} by [{rows}, {columns}]
    c.at(i, j) = a.at(i, j) + b.at(i, j);
}}
"""

ELE_ADD = """\
__device__ void kernel(int * a, int * b, int * c, int n) {
  for (int i = 0; i < n; ++i) c[i] = a[i] + b[i];
}

__co__ s32 [6, 17, 128] ele_add(s32 [6, 17, 128] lhs, s32 [6, 17, 128] rhs) {
  s32 [lhs.span] output;

  parallel p by 6 {
    with index in [17, 4] {
      foreach index {
        lhs_load = dma.copy lhs.chunkat(p, index) => local;
        rhs_load = dma.copy rhs.chunkat(p, index) => local;

        local s32 [lhs_load.span] l1_out;

        call kernel(lhs_load.data, rhs_load.data, l1_out, |lhs_load.span|);

        dma.copy l1_out => output.chunkat(p, index);
      }
    }
  }
  return output;
}
"""

NOTHING = """\
__co__ void nothing(s32 [1] a, s32 [1] b, s32 [1]& c) {
  parallel p by 1
    c.at(p) = a.at(p) + b.at(p);
}
"""


def function(text: str, name: str, **values: object) -> Callable[..., np.ndarray]:
    """The compiled function `name` of a program, with its placeholders filled in."""
    import croq_magic

    return getattr(croq_magic.compile(text.format(**values) if values else text), name)
