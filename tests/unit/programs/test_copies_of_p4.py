"""Python agrees with the P4 program where `make p4` does not generate one from the other."""

from __future__ import annotations

import json
import re
import runpy
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import finsy as fy
import pytest
from finsy.proto import p4i
from google.protobuf import text_format

from controller.schemas import schema_of
from controller.sizes import CALLERS, SLOTS
from controller.status import LaneCounters, LaneEvent, RpcOutcome, drop_reasons
from controller.tables import (
    CPU_PORT,
    INGRESS,
    BundleMemberRow,
    CallerKind,
    CallerPortRow,
    Change,
    HashedBundleRow,
    HomeRow,
    HotParam,
    JobRow,
    KeyState,
    Route,
    RowEncoder,
    ServerRow,
    SprayedBundleRow,
    TableRow,
    Update,
    UplinkRow,
    WorkerRow,
)
from experiment.run_config import MAX_SERVERS, MAX_WORKERS, SERVER_ROWS, max_top_k
from foundation.designs import hotset
from foundation.designs.registry import design
from foundation.protocol import addressing, frames, header
from foundation.protocol.frames import FRAME_OVERHEAD
from foundation.protocol.header import CONTROL_SHAPES, HEADER_BYTES, LANES, SHAPES, Op
from foundation.protocol.leaf_spine import MAX_SPINES
from foundation.protocol.rows import ONE_VALUE, RowRange, RowRanges
from hosts.scapy.packets import Hotline
from switch_bench.workload import MAX_RUN
from tests.harness import testnet

ROOT = Path(__file__).parents[3]
P4SRC = ROOT / "p4src"
DESIGN = ROOT / "docs" / "design.md"
P4INFOS = sorted(P4SRC.rglob("*.p4info.txtpb")) + sorted((ROOT / "tests/designs").rglob("*.p4info.txtpb"))
HOTSET = design("hotset").program


def p4info(file: Path) -> p4i.P4Info:
    return text_format.Parse(file.read_text(), p4i.P4Info())


@cache
def bmv2(program: Path = HOTSET) -> dict[str, Any]:
    return dict(json.loads(program.read_text()))


def header_fields(header_type: str, program: Path = HOTSET) -> dict[str, int]:
    """Return the fields of a header type in wire order, with their widths in bits."""
    [found] = [each for each in bmv2(program)["header_types"] if each["name"] == header_type]
    return {name: width for name, width, _ in found["fields"]}


SCHEMA = schema_of(design("hotset"))
P4INFO = SCHEMA.p4info
ENCODER = RowEncoder(P4INFO)


def sizes(kind: str) -> dict[str, int]:
    """Return the sizes of the program's tables, registers or counters by name."""
    return {each.preamble.name.removeprefix(INGRESS): each.size for each in getattr(P4INFO, kind)}


def test_committed_constants_equal_the_output_of_the_generator() -> None:
    generated = runpy.run_path(str(ROOT / "tools" / "scripts" / "p4_constants.py"))["FILES"]
    assert generated == {folder: (P4SRC / folder / "constants.p4").read_text() for folder in generated}


@pytest.mark.parametrize("file", P4INFOS, ids=lambda file: file.name)
def test_the_p4info_of_each_design_has_the_version_of_the_wire(file: Path) -> None:
    """Controllers recognise the version of a switch by it."""
    assert p4info(file).pkg_info.version == str(header.VERSION)


def test_counters_have_a_cell_for_each_name() -> None:
    counters = sizes("counters")
    assert counters["drops"] >= len(drop_reasons()) == len(set(drop_reasons()))
    assert counters["readdress.rpcs"] == len(RpcOutcome)
    assert {counters[f"bank_{lane:02d}.row_stats"] for lane in range(LANES)} == {len(LaneEvent)}
    assert len(fields(LaneCounters)) == len(LaneEvent)


def test_the_header_equals_the_programs_field_by_field() -> None:
    fields_of_p4 = header_fields("rpc_t")
    assert list(fields_of_p4.items()) == list(header.bits_of_fields().items())
    at = 0
    for name, width in fields_of_p4.items():
        assert header.offset_of(name) == at
        at += width // 8
    assert at == HEADER_BYTES
    assert header_fields("key_t") == {"key": 8 * header.KEY_BYTES}
    assert header_fields("word_t") == {"value": 8 * header.VALUE_BYTES}
    assert header_fields("quad_t") == dict.fromkeys("abcd", 8 * header.VALUE_BYTES)
    assert len("abcd") == header.QUAD


def test_the_header_equals_the_documented_header() -> None:
    _, _, table = DESIGN.read_text().partition("| offset | bytes | field | |\n")
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\w+) \|", table.partition("\n\n")[0], re.MULTILINE)
    documented = [(name, int(at), 8 * int(size)) for at, size, name in rows]
    bits = header.bits_of_fields()
    assert documented == [(name, header.offset_of(name), bits[name]) for name in bits]
    assert f"\n| {HEADER_BYTES} | 8 · count | keys |" in table


def test_the_table_of_dims_equals_the_documented_table() -> None:
    """Lanes, bytes on the wire of a full push, bytes a value, and rows that fit into the switch, by dim."""
    _, _, table = DESIGN.read_text().partition("| dim | lanes | bytes of a full push | a value |")
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \| ([\d.]+) \| ([\d,]+) \|$", table, re.MULTILINE)
    expected = []
    for dim in header.DIMS:
        lanes = header.lanes_of_dim(dim)
        size = FRAME_OVERHEAD + HEADER_BYTES + lanes * header.lane_bytes(header.KEYS | header.VALUES, dim)
        expected.append(
            (f"{dim}", f"{lanes}", f"{size}", f"{size / (lanes * dim):.1f}", f"{lanes * SLOTS:,}")
        )
    assert rows == expected


def test_scapys_fields_are_the_programs() -> None:
    *of_header, keys, values = Hotline.fields_desc
    assert {field.name: round(8 * field.sz) for field in of_header} == header_fields("rpc_t")
    assert (keys.name, values.name) == ("keys", "values")


@pytest.mark.parametrize(("lanes", "program"), [(32, HOTSET), (64, testnet.FOR_64_LANES)])
def test_a_program_of_other_lanes_has_larger_bitmaps(lanes: int, program: Path) -> None:
    assert 8 * header.layout(lanes).size == sum(header_fields("rpc_t", program).values())


def test_python_accepts_the_shapes_of_rpcs_that_the_program_passes() -> None:
    """Two shapes never pass the program: a pull with the switch's values, and a CONTROL request."""
    [table] = [t for t in bmv2()["pipelines"][0]["tables"] if t["name"].endswith(".shapes")]
    names = dict(zip(table["action_ids"], table["actions"], strict=True))
    passed = {}
    for entry in table["entries"]:
        op, flags = (int(key["key"], 16) for key in entry["match_key"])
        call = entry["action_entry"]
        data = [int(number, 16) for number in call["action_data"]]
        passed[op, flags] = names[call["action_id"]].rpartition(".")[2], data
    # The bytes of a key, if the shape has keys, and those of a value, if it has values.
    requests = {key: tuple(data) for key, (action, data) in passed.items() if action == "request"}
    answers = {key: (0, *data) for key, (action, data) in passed.items() if action == "answer"}
    marked_pull = (int(Op.PULL), header.KEYS | header.VALUES)
    assert requests | answers == {
        (op, flags): (
            header.KEY_BYTES if flags & header.KEYS else 0, header.VALUE_BYTES if flags & header.VALUES else 0
        )
        for op, flags in SHAPES - {marked_pull}
    }  # fmt: skip
    control = {key for key, (action, _) in passed.items() if action == "control_answer"}
    assert control == CONTROL_SHAPES - {(int(Op.CONTROL), 0)}


@pytest.mark.parametrize(
    ("name", "fields_of_it"),
    [
        ("packet_out", {"egress_port": 9, "submit_to_ingress": 1, "_pad": 6}),
        ("packet_in", {"ingress_port": 9, "_pad": 7}),
    ],
)
def test_packet_out_and_in_have_the_port_on_top(name: str, fields_of_it: dict[str, int]) -> None:
    assert header_fields(f"{name}_t") == fields_of_it
    [metadata] = [m for m in P4INFO.controller_packet_metadata if m.preamble.name == name]
    assert {field.name: field.bitwidth for field in metadata.metadata} == fields_of_it


def test_a_packet_out_has_a_port_or_goes_through_the_pipeline() -> None:
    assert frames.packet_out_header(511) == bytes([0b11111111, 0b1_0_000000])
    assert frames.packet_out_header(None) == bytes([0b00000000, 0b0_1_000000])
    states = {state["name"]: state for state in bmv2()["parsers"][0]["parse_states"]}
    transitions = states["parse_packet_out"]["transitions"]
    # The compiler numbers the parts of a state that applies another parser.
    [through] = [t["value"] for t in transitions if str(t["next_state"]).startswith("parse_frame")]
    assert int(through, 16) == 1
    from_cpu = {t["next_state"]: t["value"] for t in states["start"]["transitions"]}
    assert int(from_cpu["parse_packet_out"], 16) == CPU_PORT


MACS = [f"f2:00:00:00:01:{number:02x}" for number in range(4)]
ADDRESSES = [f"250.0.1.{number}" for number in range(3)]
ROWS_OF_TABLES: list[TableRow] = [
    JobRow(0xFFFE, offload=True, proxy=False, quota=7),
    ServerRow(0xFFFD, 0xFFFC, MACS[0], ADDRESSES[0], 0xFFFB, 0x1FF, MACS[1], ADDRESSES[1], 0xFFFA),
    WorkerRow(
        0xFFF9, 0xFFF8, 2**32 - 2, CALLERS - 1, MACS[2], ADDRESSES[2], 0xFFF7, 0x1FE, CallerKind.PRIVILEGED
    ),
    HomeRow(0xFFF5, 0xFFF4, 0x1FC, 0x1FB),
    CallerPortRow(0xFFF3, 0xFFF2, 0x1FA),
    Route(MACS[3], 0x1FD),
    HashedBundleRow(0x1F9, 0xFF),
    SprayedBundleRow(0x1F8, 0xFE),
    BundleMemberRow(0xFD, 0x1F7),
    UplinkRow(0x1F6, 0x1F5),
    *(HotParam(0xFFF6, 2**64 - 2, LANES - 1, SLOTS - 1, state) for state in KeyState),
    HotParam(0xFFF6, 2**64 - 2, 0, SLOTS - 1, KeyState.HOT, dim=128),
]


def test_the_controller_has_rows_for_all_tables_of_the_program() -> None:
    tables = set(sizes("tables")) - {"validate.shapes"}
    kinds: tuple[type[TableRow], ...] = (
        JobRow, ServerRow, HomeRow, WorkerRow, CallerPortRow, Route, HotParam, HashedBundleRow,
        SprayedBundleRow, BundleMemberRow, UplinkRow,
    )  # fmt: skip
    assert tables == {name for kind in kinds for name in kind.TABLES}
    actions = [action.alias.split(".") for action in SCHEMA.actions]
    assert {alias[1] for alias in actions if alias[0] == "lookup_00"} == {state.value for state in KeyState}


def metadata_of(quota: int, ranges: RowRanges) -> bytes:
    """Return a job's metadata: its quota, in four bytes if ranges of nine bytes each follow it."""
    if ranges == ONE_VALUE:
        return bytes([quota]) if quota else b""
    pairs = b"".join(first.to_bytes(8, "big") + bytes([dim]) for first, dim in ranges)
    return quota.to_bytes(4, "big") + pairs


ROWS_OF_JOBS = (
    JobRow(0, False, True),
    JobRow(1, True, True, 200, (RowRange(0, 1), RowRange(2**40, 16), RowRange(2**64 - 1, 128))),
    JobRow(2, True, False, ranges=(RowRange(0, 64),)),
)


def finsys(row: TableRow) -> fy.P4TableEntry:
    """Return the entry that finsy makes from names and addresses as text."""
    if isinstance(row, HotParam):
        action = fy.Action(f"lookup_{row.lane:02d}.{row.state.value}", slot=row.slot)
        match = fy.Match(job=row.job, dim=row.dim, key=row.key)
        return fy.P4TableEntry(f"lookup_{row.lane:02d}.hot_params", match=match, action=action)
    values = {field.name: getattr(row, field.name) for field in fields(row)}
    # In the entry's metadata, as no packet needs them.
    quota, ranges = values.pop("quota", 0), values.pop("ranges", ONE_VALUE)
    table = SCHEMA.tables[INGRESS + row.TABLES[0]]
    match = fy.Match(**{field.alias: values.pop(field.alias) for field in table.match_fields})
    return fy.P4TableEntry(
        table.alias, match=match, action=fy.Action(row.ACTION.rpartition(".")[2], **values),
        metadata=metadata_of(quota, ranges),
    )  # fmt: skip


@pytest.mark.parametrize("row", [*ROWS_OF_TABLES, HotParam(3, 7, 0, 0, KeyState.HOT), *ROWS_OF_JOBS])
def test_updates_are_encoded_as_by_finsy(row: TableRow) -> None:
    """Most rows have the largest values that their fields take."""
    inserted = ENCODER.update(Update(Change.INSERT, row))
    assert inserted == (+finsys(row)).encode_update(SCHEMA)
    assert type(row).from_entry(fy.P4TableEntry.decode(inserted.entity, SCHEMA)) == row
    assert ENCODER.update(Update(Change.MODIFY, row)) == (~finsys(row)).encode_update(SCHEMA)
    deleted = (-finsys(row)).encode_update(SCHEMA)
    for name in ("action", "metadata"):  # by which nothing is deleted
        deleted.entity.table_entry.ClearField(name)
    assert ENCODER.update(Update(Change.DELETE, row)) == deleted


def test_tables_and_registers_have_the_sizes_of_the_constants() -> None:
    tables = sizes("tables")
    assert tables["identify.workers"] == CALLERS
    assert tables["identify.servers"] == SERVER_ROWS
    assert {tables[name] for name in HotParam.TABLES} == {SLOTS}
    assert tables["to_bundle.members"] == tables["identify.from_bundle.bundled_ports"] == MAX_SPINES
    registers = {each["name"]: (each["size"], each["bitwidth"]) for each in bmv2()["register_arrays"]}
    cells = registers.pop(INGRESS + "exactly_once.cells")
    # Epoch, turn and a bitmap for each slot of each caller's window.
    assert cells == (CALLERS << header.WINDOW_BITS, 32 + 32 + LANES)
    assert registers.pop(INGRESS + "to_bundle.turns") == (1, 8)
    assert registers == {
        f"{INGRESS}bank_{bank:02d}.values_{word}": (SLOTS, 32) for bank in range(LANES) for word in "abcd"
    }
    counters = sizes("counters")
    assert {counters[f"bank_{lane:02d}.pushes"] for lane in range(LANES)} == {SLOTS}


def test_the_largest_run_fits_into_the_tables() -> None:
    tables = sizes("tables")
    jobs = len(hotset.ARMS)
    assert jobs <= tables["identify.jobs"]
    assert MAX_SERVERS * jobs <= tables["identify.servers"] < (MAX_SERVERS + 1) * jobs
    # One row is the controller's, when it reads registers.
    assert (MAX_WORKERS + MAX_SERVERS) * jobs + 1 <= tables["identify.workers"]
    assert tables["forward.forward"] >= MAX_WORKERS + MAX_SERVERS
    assert tables["forward.forward"] == addressing.MAX_HOSTS
    assert all(
        max_top_k(jobs) * jobs <= LANES * SLOTS
        for jobs in range(1, sum(arm.settings.aggregates for arm in hotset.ARMS) + 1)
    )
    assert tables["identify.workers"] >= MAX_RUN


def test_callers_and_windows_have_room_in_their_fields() -> None:
    worker_bits = header_fields("rpc_t")["worker"]
    assert 2**worker_bits - 1 == header.CONTROLLER_CALLER
    assert 2 ** (worker_bits - 1) == header.PS_CALLER_BASE
    assert header.WINDOW == 1 << header.WINDOW_BITS == header.SLOT_MASK + 1
