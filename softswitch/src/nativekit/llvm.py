"""Names for objects of numba and llvmlite, whose packages have no hints: to mypy they are anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from llvmlite import ir

TypingContext: TypeAlias = Any
"""Numba's typing context, or a template of it."""
Context: TypeAlias = Any
"""Numba's target context."""
Kind: TypeAlias = Any
"""A type of numba's (`numba.types`)."""
Signature: TypeAlias = Any
"""The signature of a compiled function."""
Value: TypeAlias = Any
"""A value of LLVM's IR."""
Values: TypeAlias = Sequence[Value]
"""The arguments of a call, in order."""
Function: TypeAlias = Callable[..., Any]
"""Any function: decorators return what they are given, so its own hints hold."""
Compiled: TypeAlias = Any
"""A compiled function, or what stands for one."""
Module: TypeAlias = Any
"""A module of numba's."""
Generated: TypeAlias = tuple[Kind, Callable[[Context, ir.IRBuilder, Signature, Values], Value]]
"""What a function decorated with `leaf` returns: a signature, and the function that builds its code."""
