"""Type aliases for objects of numba and llvmlite, which have no type hints: all are Any to mypy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:  # without llvmlite, these aliases are the same
    from llvmlite import ir

TypingContext: TypeAlias = Any
"""Numba's typing context, or an attribute template."""
Context: TypeAlias = Any
"""Numba's target context, which lowers types to LLVM."""
Kind: TypeAlias = Any
"""A numba type (`numba.types`)."""
Signature: TypeAlias = Any
Value: TypeAlias = Any
Values: TypeAlias = Sequence[Value]
Function: TypeAlias = Callable[..., Any]
Compiled: TypeAlias = Any  # a dispatcher, external function or other object of numba that is callable
Module: TypeAlias = Any
Generated: TypeAlias = tuple[Kind, Callable[[Context, "ir.IRBuilder", Signature, Values], Value]]
"""Result of a generator of LLVM IR: the signature, and the function that emits the code."""
