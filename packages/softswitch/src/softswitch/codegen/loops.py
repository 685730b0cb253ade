"""Loops and mutable variables of emitted functions; LLVM promotes the variables to registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from llvmlite import ir as llvm

from softswitch.target import target_of


class Variable:
    def __init__(
        self, b: llvm.IRBuilder, kind: llvm.Type, value: llvm.Value | None = None, name: str = ""
    ) -> None:
        self.b = b
        self.kind = kind
        with b.goto_entry_block():
            self._slot = self._reserve(name)
        self.set(llvm.Constant(kind, None) if value is None else value)

    def _reserve(self, name: str) -> llvm.Value:
        return self.b.alloca(self.kind, name=name)

    def get(self) -> llvm.Value:
        return self.b.load(self._slot, typ=self.kind)

    def set(self, value: llvm.Value) -> None:
        self.b.store(value, self._slot)


class OpaqueVariable(Variable):
    """A variable that the kernel's verifier does not track, since it would explore each value separately."""

    def _reserve(self, name: str) -> llvm.Value:
        return target_of(self.b.module).reserve(self.b, self.kind, name)

    def get(self) -> llvm.Value:
        return target_of(self.b.module).load_opaque(self.b, self._slot, self.kind)


@contextmanager
def repeat_while(b: llvm.IRBuilder, condition: Callable[[], llvm.Value]) -> Iterator[llvm.Block]:
    """Repeat the emitted block while the condition holds; yield the block that follows."""
    head, body, end_block = (b.append_basic_block(name) for name in ("head", "body", "done"))
    b.branch(head)
    b.position_at_end(head)
    target_of(b.module).loop_guard(b)
    b.cbranch(condition(), body, end_block)
    b.position_at_end(body)
    yield end_block
    b.branch(head)
    b.position_at_end(end_block)


def require(b: llvm.IRBuilder, condition: llvm.Value, otherwise: llvm.Block) -> None:
    next_block = b.append_basic_block("following")
    b.cbranch(condition, next_block, otherwise)
    b.position_at_end(next_block)
