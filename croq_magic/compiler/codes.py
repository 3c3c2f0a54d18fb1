"""The catalogue of diagnostics: every code with its severity and what it is about.

Codes are stable: tools and users refer to them. `docs/diagnostics.md` is made from this table and the examples in
`tests/compiler/catalogue.py`.
"""

from __future__ import annotations

from typing import NamedTuple


class Code(NamedTuple):
    """One entry of the catalogue."""

    code: str
    severity: str  # "error", "warning" or "note"; a target may weaken an error of another target to a warning
    title: str
    section: str


_TABLE = {
    "Syntax": """
        SYN01 E Unexpected token, such as a missing separator in a list
        SYN02 E `[ ]` used for an ituple
        SYN03 E `=` used for a shape
        SYN04 E `:` used for an ituple
        SYN05 E Array of ituples / bracketed rank
        SYN06 E Empty shape
        SYN07 E Unknown attribute or launch attribute in statement position
        SYN08 E Bracketed parallel name
        SYN09 E `else` without `if`
        SYN10 E Integer literal out of range
        SYN11 E Element access with brackets
        SYN12 E Assembly `goto` or a fifth section
        SYN13 E Function not closed at end of file
        SYN14 E Removed spelling
        SYN15 E Suffix order
        SYN16 E `swap` with other than two names
        SYN17 E Bare count as bound
    """,
    "Names and scopes": """
        NAM01 E Use before declaration
        NAM02 E Redeclaration in one scope
        NAM03 E Duplicate parameter
        NAM04 E Parameter hidden in the outermost body
        NAM05 E Name out of scope
        NAM06 E Wildcard declared
        NAM07 E Dimension name of another function
        NAM08 E Same parallel variable twice in one statement
        NAM09 E Duplicate local loop name
        NAM10 E Possible typo
        NAM11 E `where` on a foreign name
    """,
    "Types": """
        TYP01 E Assignment to an immutable
        TYP02 E Uninitialised control scalar
        TYP03 E `mutable` on a shape, ituple or span
        TYP04 E `mutable` without any type information
        TYP05 E Number into bool
        TYP06 W Lossy implicit conversion
        TYP07 W Signedness change
        TYP08 E No common float type
        TYP09 E String or pointer variable
        TYP10 E Span used as scalar
        TYP11 E Iterating a non-bounded variable
        TYP12 E Iterating a parallel variable
        TYP13 E `.at` on a future
        TYP14 E `.data` on an operation future
        TYP15 E Wrong rank annotation
        TYP16 E Unsupported target type in a cast
        TYP17 W Bitwise precedence surprise
        TYP18 E Return type mismatch
        TYP19 E Missing / superfluous return
        TYP20 E Unreturnable value
        TYP21 E Scalar by reference
    """,
    "Shapes": """
        SHP01 E Extent not positive
        SHP02 E Shape + shape
        SHP03 E Rank mismatch in arithmetic
        SHP04 E Current value used as extent
        SHP05 E Mutable used as extent
        SHP06 E Float or bool in a shape
        SHP07 E Dimension selector out of range
        SHP08 E ituple named with `:`
        SHP09 E Matcher count
        SHP10 E Tuple extent in scalar position
        SHP11 E Array dimension not static
        SHP12 E `where` on different extents
        SHP13 E Zero extent after division
        SHP14 E Whole-span arithmetic
    """,
    "Views": """
        VEW01 E Wrong number of tiling arguments
        VEW02 E More chunks than elements
        VEW03 W Remainder dropped
        VEW04 E Unbounded chunk argument
        VEW05 E subspan larger than parent
        VEW06 E Tile index out of range
        VEW07 E Window outside
        VEW08 E Element count changes
        VEW09 E Reshape of a strided view
        VEW10 E `.sqz` without a tile
        VEW11 E Element index rank
        VEW12 E Element index range
        VEW13 E Array subscripts
        VEW14 E Array rank
        VEW15 W Index composed the wrong way round
    """,
    "Storage": """
        STO01 E shared or local on the host
        STO02 E global inside a kernel
        STO03 E Storage word on a scalar
        STO04 E Device storage returned or used outside
        STO05 E Non-scalar initialiser
        STO06 E Too much shared memory
        STO07 E Qualifier on a parameter
        STO08 W Read before write
        STO09 E Reference to device memory
    """,
    "Parallel levels": """
        PAR01 E Order of levels
        PAR02 E Same level twice
        PAR03 W Mixed annotation
        PAR04 E Thread limit
        PAR05 E Warp multiples
        PAR06 E Different inner sizes
        PAR07 E Extent not positive / not integer
        PAR08 E Names versus extents
        PAR09 E Several extents for one name
        PAR10 E Inner async or inner stream
        PAR11 E Not a stream
        PAR12 E Uniform inthreads
        PAR13 E inthreads on the host / inner async
        PAR14 E parallel inside inthreads
        PAR15 E Barrier in divergent code
        PAR16 W Block-scope cooperation in a lone level
        PAR17 W Cooperative on another level
        PAR18 E launch attributes
        PAR19 E return inside a launch
        PAR20 E break outside a loop
        PAR21 E unroll factor
        PAR22 E Race on an outer scalar
        PAR23 E yield on the host
        PAR24 E Unknown device
        PAR25 E Grid barrier without cooperation
        PAR26 E unroll(0)
        PAR27 E Launch attribute argument
        PAR28 E Two variables in one mask comparison
    """,
    "DMA and futures": """
        DMA01 E Element types
        DMA02 E Rank
        DMA03 E Extents
        DMA04 W Partial fill
        DMA05 E Host destination
        DMA06 E Unnamed async
        DMA07 E Never waited
        DMA08 E Wait on sync
        DMA09 E Use before wait
        DMA10 E Placeholder misuse
        DMA11 E Placeholder never used
        DMA12 E Swap of unequal futures
        DMA13 E Swap across scopes
        DMA14 E Select range / kinds
        DMA15 E Select type mismatch
        DMA16 E Pad configuration rank
        DMA17 E mid padding
        DMA18 E Bad permutation
        DMA19 E Transposed extents
        DMA20 E Non-uniform shared copy
        DMA21 E Swizzle value
        DMA22 E Name bound twice in a row
        DMA23 W Async direction (CUDA)
        DMA24 E Sparsity pattern
        DMA25 E Mapping
        DMA26 W Direction (CUDA)
    """,
    "Events": """
        EVT01 E Bad initial state
        EVT02 E `.at` on a scalar event
        EVT03 E Order arithmetic around `++`
        EVT04 E Shared increment
        EVT05 E Trigger after dma
        EVT06 E Trigger after wait
        EVT07 E Trigger after MMA
        EVT08 W Event outside inthreads
        EVT09 E Slot range
        EVT10 E Lost credits
        EVT11 E while mixes events and values
        EVT12 W Modulo mistake
    """,
    "Tensor cores and TMA": """
        MMA01 E Illegal tile
        MMA02 E K mismatch
        MMA03 E Fill of an operand
        MMA04 E Array as operand
        MMA05 E Accumulator redeclared
        MMA06 E Warpgroup MMA on sm_86
        MMA07 E Bad schedule
        MMA08 E Schedule elsewhere
        MMA09 E Swizzle mismatch
        MMA10 W Lossy fill
        MMA11 E TMA direction
        MMA12 E TMA on old hardware
        MMA13 E Runtime box
        MMA14 E TMA alignment
        MMA15 E Metadata not loaded
        MMA16 E Reduction layout
    """,
    "Calls": """
        CAL01 E Call on the host
        CAL02 E Unpassable argument
        CAL03 E Future passed
        CAL04 E Result type
        CAL05 E Calling a tileflow function
        CAL06 E Call inside an expression
        CAL07 E Atomic operand
        CAL08 E Atomic arity
        CAL09 E Atomic type support
        CAL10 E Unregistered intrinsic
    """,
    "Dynamic shapes": """
        DYN01 E Symbol introduced in the body
        DYN02 E `?` in the body
        DYN03 E `??` on a host parameter
        DYN04 E `??` used as bound
        DYN05 E Dynamic local buffer
        DYN06 E Contradictory symbols
    """,
    "Preprocessor": """
        PRE01 E Missing #endif
        PRE02 E #else without #if
        PRE03 E Live #error
        PRE04 E Macro arity
        PRE05 E Malformed pragma
        PRE06 E Division by zero in a condition
    """,
    "Runtime assertions": """
        RTA01 E Symbolic dimensions disagree
        RTA02 E Fixed extent disagrees
        RTA03 E Derived extent not positive
        RTA04 E Parallel extent
        RTA05 E Index from a parameter
        RTA06 E User assertion
        RTA07 E Select out of range
        RTA08 E Null or host pointer for a global parameter
    """,
    # Findings that the language reference has no code for.
    "Additions": """
        SYN18 W Misspelt marker
        SYN19 E Nested too deeply
        SYN20 W Text that is passed over
        TYP22 E Division by zero
        STO10 W Write to a parameter without `&`
        STO11 E Outer local written from a finer level
        SHP15 E Extent too large
        STO12 E Storage of a size that no target has
        PAR29 E Number or threads of a named barrier
        PRE07 E Directive or macro that is not supported
        PRE08 W Quoted include that is not found
        RAC01 W Race between instances
        UNS01 E Not supported by this version
        PRF01 N Access spread over memory
        CXX01 E Refused by the C++ compiler
    """,
}


_SEVERITIES = {"E": "error", "W": "warning", "N": "note"}


def _read_table() -> dict[str, Code]:
    codes = {}
    for section, lines in _TABLE.items():
        for line in lines.strip().splitlines():
            code, letter, title = line.split(maxsplit=2)
            codes[code] = Code(code, _SEVERITIES[letter], title, section)
    return codes


CODES: dict[str, Code] = _read_table()
