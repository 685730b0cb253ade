"""Tables and registers from BMv2's commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from softswitch.errors import SwitchError
from softswitch.explain.commands import run_commands
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Masked, RangeMatch
from softswitch.load.tables import TOP_PRIORITY
from softswitch.pipeline import ActionCall, Replica
from switch_harness import PROGRAMS
from switch_harness.constructs import compiled


def apply(program: str, tmp_path: Path, *lines: str) -> InterpretedPipeline:
    file = tmp_path / "commands.txt"
    file.write_text("".join(f"{line}\n" for line in lines))
    return run_commands((PROGRAMS / f"{program}.json").read_bytes(), InterpretedPipeline, file)


def test_entries_defaults_and_registers_are_set_by_commands(tmp_path: Path) -> None:
    pipeline = apply(
        "control",
        tmp_path,
        "# a route",
        "table_add ControlIngress.forward forward_to 00:00:00:00:00:0b => 0x2",
        "table_set_default forward ControlIngress.forward_to 3",
        "register_write cells 1 9",
    )
    (entry,) = pipeline.tables.read("ControlIngress.forward")
    assert (entry.key, entry.action) == ((0xB,), ActionCall("ControlIngress.forward_to", (2,)))
    assert pipeline.cells.read_register("ControlIngress.cells", 1, 2) == [9]
    frame = bytes.fromhex("00000000000c 00000000000a 0800")
    assert pipeline.process(1, frame, 0, 0) == [(3, frame)]


def test_multicast_groups_and_clone_sessions_are_set_by_commands(tmp_path: Path) -> None:
    """The first byte asks for a copy to group 1, or a clone to session 5 (tests/programs/replication.p4)."""
    by_hand = InterpretedPipeline(compiled("replication"))
    by_hand.replication.write_multicast_group(1, [Replica(1, 7), Replica(2, 7), Replica(3, 8)])
    by_hand.replication.write_clone_session(5, [Replica(4)])
    by_commands = apply(
        "replication",
        tmp_path,
        "mc_mgrp_create 1",
        "mc_node_create 7 1 2",
        "mc_node_create 8 3",
        "mc_node_associate 1 0",
        "mc_node_associate 1 1",
        "mirroring_add 5 4",
    )
    for op in range(128):
        frame = bytes([op, 1, 0, 1, 0, 5, 0, 30]) + bytes(12)
        assert by_commands.process(1, frame, 0, 0) == by_hand.process(1, frame, 0, 0)


KINDS = {
    "exact": ("0x1f", 0x1F),
    "lpm": ("0x80/1", None),
    "ternary": ("5&&&7", Masked(5, 7)),
    "range": ("3->9", RangeMatch(3, 9)),
    "optional": ("6", None),
}


def test_entries_with_every_kind_of_key_are_added(tmp_path: Path) -> None:
    program = compiled("match_kinds")
    for table in program.tables.values():
        if not table.key or table.profile is not None or table.is_immutable:
            continue
        action = program.actions[table.actions[0]]
        keys = " ".join(KINDS[part.kind.value][0] for part in table.key)
        data = " ".join(["1"] * len(action.parameters))
        priority = " 10" if table.has_priority else ""
        before = len(list(InterpretedPipeline(program).tables.read(table.name)))
        pipeline = apply(
            "match_kinds", tmp_path, f"table_add {table.name} {action.name} {keys} => {data}{priority}"
        )
        entries = list(pipeline.tables.read(table.name))
        assert len(entries) == before + 1
        added = entries[-1]
        assert added.priority == (TOP_PRIORITY - 10 if table.has_priority else 0)
        for part, match in zip(table.key, added.key, strict=True):
            expected = KINDS[part.kind.value][1]
            assert expected is None or match == part.mask_match(expected)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("table_ad forward", "table_ad"),
        ("table_add forwrd forward_to 1 => 2", "forwrd"),
        ("table_add forward forward_too 1 => 2", "forward_too"),
        ("table_add forward forward_to one => 2", "one"),
        ("table_add forward forward_to 1 => 512", "512"),
        ("register_write cells 99999 1", "register_write"),
        ("mc_node_associate 1 0", "mc_node_associate"),
        ("set_queue_rate 10", "set_queue_rate"),
        ("port_add veth9 9", "port_add"),
        ("shell true", "shell"),
    ],
)
def test_a_mistake_has_file_line_and_word(line: str, word: str, tmp_path: Path) -> None:
    with pytest.raises(SwitchError) as error:
        apply("control", tmp_path, "# fine", line)
    assert str(error.value).startswith(f"{tmp_path / 'commands.txt'}:2: {word!r}: ")
