"""Targets: everything that knows a machine. `choose` finds one by name."""

from croq_magic.compiler.targets.base import Module, Target, choose, names

__all__ = ["Module", "Target", "choose", "names"]
