"""Programs of some small tables, without a parser or a pipeline: what `softswitch.state` needs of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from softswitch import ir
from softswitch.memory.layout import Layout, make_layout
from softswitch.memory.words import WORD_BYTES
from softswitch.state.entries import Entries
from softswitch.state.memory import Memory
from softswitch.state.profiles import Profile

NARROW, WIDE, PLAIN = "narrow", "wide", "plain"
ACTIONS = (ir.Action(NARROW, (16,), ()), ir.Action(WIDE, (9, 130), ()), ir.Action(PLAIN, (), ()))


def key_field(width: int, kind: ir.MatchKind = ir.MatchKind.EXACT, mask: int | None = None) -> ir.KeyField:
    return ir.KeyField("field", ir.FieldRef(0, 0), width, kind, mask)


def table(name: str, key: Sequence[ir.KeyField], size: int, **more: Any) -> ir.Table:
    settings: dict[str, Any] = {
        "actions": (0, 1, 2),
        "default": ir.Invocation(2, ()),
        "default_is_const": False,
        "const_entries": (),
        "has_counter": False,
        "next_nodes": {},
        "next_on_hit": None,
        "next_on_miss": None,
        "branches_on_hit": False,
    }
    return ir.Table(name=name, key=tuple(key), size=size, **{**settings, **more})


def program(*tables: ir.Table, **more: Any) -> ir.Program:
    parts: dict[str, Any] = {
        "headers": (),
        "stacks": (),
        "errors": {},
        "parser": (),
        "start_state": 0,
        "actions": ACTIONS,
        "ingress": ir.Control("ingress", None, {each.name: each for each in tables}),
        "egress": ir.Control("egress", None, {}),
        "deparser": (),
        "field_index": {},
    }
    return ir.Program(**{**parts, **more})


class State:
    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self.layout: Layout = make_layout(program)
        self.memory = Memory(self.layout.work * WORD_BYTES)
        self.profiles = [Profile(program, layout, self.memory) for layout in self.layout.profiles]
        self.entries = Entries(program, self.layout, self.memory, self.profiles)

    def words(self, first: int, count: int) -> list[int]:
        return [int(word) for word in self.memory.words[first : first + count]]

    def word(self, offset: int) -> int:
        return int(self.memory.words[offset])
