"""The words of the language, with their spelling and one line about each: what the kernel completes and explains."""

from __future__ import annotations

# word | how it is written | what it means
_TABLE = """
__co__ | __co__ TYPE name(PARAMETERS) { ... } | A tileflow function: it launches parallel work and moves data.
__device__ | __device__ TYPE name(PARAMETERS) { ... } | A C++ device function, kept as it is; used with `call`.
__cok__ | __cok__ { ... } | Device code for targets that compile host and device separately.
parallel | parallel p by N [: LEVEL] { ... } | Instances that may run at the same time; the outermost level is a launch.
by | parallel p by N | The number of instances; p runs from 0 to N-1.
foreach | foreach i in [N] { ... } | A loop whose iterations run in order.
in | foreach i in [N]; with i in [N] | The extents of loop or `with` variables.
with | with i in [M, N] { ... } | Binds bounded variables; a `foreach` inside drives them.
where | foreach i in [N] where i <-> j | Two bounded variables of equal extent step together.
inthreads | inthreads (CONDITION) { ... } | The body runs in the instances for which the condition holds.
block | : block | Maps a parallel level to thread blocks; they share nothing but global memory.
thread | : thread | Maps a parallel level to the threads of a block.
group | : group | Maps a parallel level to warps of 32 threads.
group-4 | : group-4 | Maps a parallel level to warpgroups of 128 threads.
shared | => shared; shared T [dims] x; | Memory of one block, visible to all its threads.
local | => local; local T [dims] x; | Memory of one thread.
global | global T [dims] x | Memory of the device; a `global` parameter is written in place.
dma | dma.copy SOURCE => DESTINATION | Moves a chunk to `shared`, `local` or a span; the result is a future.
copy | f = dma.copy x.chunkat(p) => shared; | A transfer that keeps the shape.
chunkat | x.chunkat(p, i, _) | One of #p by #i chunks of x; `_` keeps a dimension whole.
subspan | x.subspan(m, n).at(i, j) | Tile (i, j) of size m by n.
span | x.span, x.span(i) | The shape of x, or one extent of it. |x.span| is the number of elements.
data | f.data | What a transfer delivered, as a span.
at | x.at(i, j) | One element: one index for each dimension.
call | call f(x.data, n); | Runs a device function inside `parallel`; spans are passed as pointers.
wait | wait f; | Waits for an asynchronous transfer or an event.
swap | swap(f, g); | Exchanges two futures, for double buffering.
rotate | rotate(f, g, h); | Rotates futures to the left.
select | select(c, v0, v1) | The c-th choice; the first has index 0.
mdspan | shape : [M, N]; | A shape: a list of extents known to the compiler.
ituple | t = {a, b}; | A tuple of integers.
cdiv | cdiv(a, b) | Division rounded up.
mutable | mutable int k = 0; | A scalar that may change.
return | return output; | Ends the function; a returned span becomes a new array.
s8 | s8 [dims] x; s8 x | 8-bit signed integer (np.int8).
s16 | s16 [dims] x; s16 x | 16-bit signed integer (np.int16).
s32 | s32 [dims] x; s32 x | 32-bit signed integer (np.int32).
s64 | s64 [dims] x; s64 x | 64-bit signed integer (np.int64).
u8 | u8 [dims] x; u8 x | 8-bit unsigned integer (np.uint8).
u16 | u16 [dims] x; u16 x | 16-bit unsigned integer (np.uint16).
u32 | u32 [dims] x; u32 x | 32-bit unsigned integer (np.uint32).
u64 | u64 [dims] x; u64 x | 64-bit unsigned integer (np.uint64).
f16 | f16 [dims] x; f16 x | 16-bit float (np.float16).
bf16 | bf16 [dims] x; bf16 x | 16-bit float with 8 exponent bits (ml_dtypes.bfloat16).
f32 | f32 [dims] x; f32 x | 32-bit float (np.float32).
f64 | f64 [dims] x; f64 x | 64-bit float (np.float64).
int | int n | A 32-bit control scalar.
bool | bool b | A truth value.
void | __co__ void f(...) | The function returns nothing.
if | if (CONDITION) { ... } else { ... } | The branch for a true condition.
else | if (CONDITION) { ... } else { ... } | The branch for a false condition.
while | while (CONDITION) { ... } | A loop that goes on while a condition holds.
break | break; | Ends the innermost loop.
continue | continue; | Starts the next iteration.
"""


def _read() -> dict[str, str]:
    rows = (line.split(" | ") for line in _TABLE.strip().splitlines())
    return {word: f"{usage}\n{text}" for word, usage, text in rows}


WORDS: dict[str, str] = _read()
