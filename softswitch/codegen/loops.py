"""Loops and variables of small functions; LLVM turns the variables into registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from llvmlite import ir as llvm


class Variable:
    """A value that changes: `get` and `set`."""

    def __init__(self, b: llvm.IRBuilder, kind: llvm.Type, value: llvm.Value | None = None) -> None:
        self.b = b
        self.kind = kind
        with b.goto_entry_block():
            self._slot = b.alloca(kind)
        self.set(llvm.Constant(kind, None) if value is None else value)

    def get(self) -> llvm.Value:
        """The value now."""
        return self.b.load(self._slot, typ=self.kind)

    def set(self, value: llvm.Value) -> None:
        """Change the value."""
        self.b.store(value, self._slot)


@contextmanager
def repeat_while(b: llvm.IRBuilder, condition: Callable[[], llvm.Value]) -> Iterator[llvm.Block]:
    """Repeat the block while the condition holds; gives the block that follows."""
    head, body, done = (b.append_basic_block(name) for name in ("head", "body", "done"))
    b.branch(head)
    b.position_at_end(head)
    b.cbranch(condition(), body, done)
    b.position_at_end(body)
    yield done
    b.branch(head)
    b.position_at_end(done)


def leave_unless(b: llvm.IRBuilder, condition: llvm.Value, done: llvm.Block) -> None:
    """Go on where the condition holds, else to the block."""
    going_on = b.append_basic_block("going_on")
    b.cbranch(condition, going_on, done)
    b.position_at_end(going_on)
