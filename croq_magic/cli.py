"""The command line: `croqtile --version`, `croqtile doctor`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from croq_magic._version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit status."""
    parser = argparse.ArgumentParser(prog="croqtile", description="Croqtile: tile programming in the notebook.")
    parser.add_argument("--version", action="version", version=f"croqtile {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="show version, target, compiler, cache and GPU")
    parser.parse_args(arguments)
    from croq_magic import doctor

    print(doctor.report())
    return 0
