"""Targets: everything that knows a machine. `resolve` finds one by name."""

from croq_magic.compiler.targets.base import Options, Target, names, resolve

__all__ = ["Options", "Target", "names", "resolve"]
