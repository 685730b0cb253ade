"""The JSON of traces: its schema is that of docs/explain.md, and some program produces every kind."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from softswitch.explain import events as ev
from softswitch.explain.record import Recorder
from softswitch.interpreter import InterpretedPipeline
from softswitch.pipeline import ActionCall, ControlPlane
from switch_harness.constructs import CONSTRUCTS, compiled, insert

PAGE = (Path(__file__).parents[3] / "docs" / "explain.md").read_text()
SCHEMA = PAGE.partition("## Events")[2].partition("\n## ")[0]
HEX, NUMBER, TEXT = r"0x[0-9a-f]+", int, str
Line = dict[str, Any]


def rows(header: str) -> dict[str, str]:
    """Return the first and second column of a table of the page."""
    table = SCHEMA.partition(header)[2].partition("\n\n")[0]
    found = re.findall(r"^\| `(\w+)` \|([^|]*)\|", table, re.MULTILINE)
    return {name: cell.strip() for name, cell in found}


def test_the_page_has_all_kinds_with_their_fields() -> None:
    documented = {kind: re.findall(r"`(\w+)`", cell) for kind, cell in rows("| kind | fields | |").items()}
    assert documented == {
        name: [each.name for each in fields(kind) if each.name != "context"]
        for name, kind in ev.KINDS.items()
    }


def test_the_page_has_the_context_of_events() -> None:
    assert list(rows("| field | |")) == ["kind", *ev.Context._fields]


def traced(name: str, *arrivals: tuple[int, bytes]) -> list[Line]:
    recorder = Recorder(compiled(name))
    pipeline = InterpretedPipeline(compiled(name), observer=recorder)
    prepare(name, pipeline)
    for port, frame in arrivals:
        pipeline.process(port, frame, 0, 3)
    return [json.loads(ev.to_json(event)) for event in recorder.take()]


@cache
def drawn(name: str) -> list[Line]:
    random = Random(1)
    return traced(name, *(CONSTRUCTS[name].frame(random) for _ in range(60)))


def prepare(name: str, pipeline: ControlPlane) -> None:
    if name in CONSTRUCTS:
        CONSTRUCTS[name].prepare(pipeline)
    elif name == "control":
        insert(pipeline, "ControlIngress.forward", (0xB,), ActionCall("ControlIngress.forward_to", (2,)))


ETHERNET = bytes.fromhex("00000000000b 00000000000a 0800")
CONTROL = ETHERNET + b"rest"
DROPPED = bytes.fromhex("00000000000c 00000000000a 0800")
INGRESS = {"packet": 1, "copy": 0, "part": "ingress"}
FORWARD = {
    **INGRESS,
    "table": "ControlIngress.forward",
    "action": "ControlIngress.forward_to",
}
PARSER = {"packet": 1, "copy": 0, "part": "parser", "state": "parse_ethernet"}
SWITCH = {"packet": 1, "copy": 0, "part": "switch"}

EXACTLY: list[Line] = [
    {
        "kind": "begin", **SWITCH, "origin": "arrival", "parent": None, "port": 1,
        "data": CONTROL.hex(),
    },
    {"kind": "state", **PARSER},
    {
        "kind": "extract", **PARSER, "header": "ethernet", "start": 0, "length": 14,
        "fields": [
            {"name": "dst_addr", "value": "0xb", "width": 48},
            {"name": "src_addr", "value": "0xa", "width": 48},
            {"name": "ether_type", "value": "0x800", "width": 16},
        ],
    },
    {"kind": "select", **PARSER, "key": None, "next": None},
    {"kind": "parsed", "packet": 1, "copy": 0, "part": "parser", "error": "NoError", "taken": 14},
    {"kind": "enter", **INGRESS},
    {
        "kind": "table", **FORWARD, "source": "tests/programs/control.p4:83",
        "key": [{"name": "dst_addr", "value": "0xb", "match": "exact", "entry": "0xb", "width": 48,
                 "field": "ethernet.dst_addr"}],
        "hit": True, "priority": None, "member": None, "group": None,
        "data": [{"name": "port", "value": "0x2", "width": 9}],
    },
    {
        "kind": "counter", **FORWARD, "source": "tests/programs/control.p4:83",
        "name": "ControlIngress.forward", "index": None, "packets": 1, "bytes": 18,
    },
    {
        "kind": "assign", **FORWARD, "source": "tests/programs/control.p4:68",
        "field": "standard_metadata.egress_spec", "width": 9, "before": "0x0", "after": "0x2", "valid": True,
    },
    {
        "kind": "register", **INGRESS, "table": "tbl_control122", "action": "control122",
        "source": "tests/programs/control.p4:123", "op": "write", "name": "ControlIngress.cells",
        "index": 0, "before": "0x0", "after": "0x1",
    },
    {"kind": "queue", **SWITCH, "port": 2},
    {
        "kind": "deparse", "packet": 1, "copy": 0, "part": "deparser", "headers": ["ethernet"],
        "payload": 4, "data": CONTROL.hex(),
    },
    {"kind": "send", **SWITCH, "port": 2, "data": CONTROL.hex()},
    {"kind": "drop", **SWITCH, "reason": "egress_spec is 511 at the end of ingress"},
]  # fmt: skip


@pytest.mark.parametrize("event", EXACTLY, ids=[str(event["kind"]) for event in EXACTLY])
def test_events_have_exactly_the_expected_fields(event: Line) -> None:
    frame = DROPPED if event["kind"] == "drop" else CONTROL
    assert event in traced("control", (1, frame))


SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "advance": ("stacks", {"start": NUMBER, "length": NUMBER}),
    "condition": ("control", {"text": r".*isValid\(\).*", "holds": bool}),
    "validity": ("varbit", {"header": TEXT, "valid": bool}),
    "cursor": ("stacks", {"stack": TEXT, "before": NUMBER, "after": NUMBER}),
    "meter": ("meters", {"name": r"Measure\.\w+", "index": NUMBER, "colour": "green|yellow|red"}),
    "hash": ("hashes", {"name": TEXT, "algorithm": r"\w+", "data": r"([0-9a-f]{2})*", "value": HEX}),
    "checksum": (
        "hashes",
        {"op": "verify|update", "field": r"\w+\.\w+", "value": HEX, "expected": HEX, "right": bool},
    ),
    "random": ("digests_logs", {"low": NUMBER, "high": NUMBER, "value": NUMBER}),
    "digest": ("digests_logs", {"name": TEXT, "values": list}),
    "log": ("digests_logs", {"text": TEXT, "failed": bool}),
    "request": ("traffic", {"what": "clone|resubmit|recirculate|digest|truncate|exit", "value": NUMBER}),
}
"""Kind -> a program that produces it, and what its fields are."""


def test_each_kind_of_event_has_a_test() -> None:
    assert {event["kind"] for event in EXACTLY} | set(SHAPES) == set(ev.KINDS)


@pytest.mark.parametrize("kind", SHAPES)
def test_each_kind_of_event_is_produced_by_a_program(kind: str) -> None:
    name, shape = SHAPES[kind]
    events = traced(name, (1, CONTROL)) if name == "control" else drawn(name)
    found = [event for event in events if event["kind"] == kind]
    assert found
    assert all(set(shape) < set(event) for event in found)
    for field, expected in shape.items():
        values = [event[field] for event in found if event[field] is not None]
        assert values, field
        if isinstance(expected, str):
            assert all(re.fullmatch(expected, value) for value in values), field
        else:
            assert {type(value) for value in values} == {expected}, field


ORIGINS = {
    "ingress clone": "traffic",
    "egress clone": "traffic",
    "replica": "replication",
    "resubmit": "resubmit_recirculate",
    "recirculate": "resubmit_recirculate",
}


@pytest.mark.parametrize("origin", ORIGINS)
def test_a_packet_made_from_another_packet_has_a_copy_number_and_a_parent(origin: str) -> None:
    events = drawn(ORIGINS[origin])
    found = [event for event in events if event["kind"] == "begin" and event["origin"] == origin]
    assert found
    assert all(0 <= event["parent"] < event["copy"] for event in found)


def test_a_wrong_checksum_and_a_missing_cell_are_marked_in_events() -> None:
    sums = [event for event in drawn("hashes") if event["kind"] == "checksum"]
    assert {(e["right"], e["value"] == e["expected"]) for e in sums} == {(True, True), (False, False)}
    outside = bytes([3, 255]) + bytes(36)
    cells = [e for e in traced("registers", (1, outside)) if e["kind"] == "register"]
    assert cells and all((e["before"], e["after"]) == (None, None) for e in cells)
