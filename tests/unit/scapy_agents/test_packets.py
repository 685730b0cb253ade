"""Scapy's packets are those of the compiled agents, for all types of messages and extremes of fields."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from foundation.errors import MalformedDatagram
from foundation.protocol import codec, control
from foundation.protocol.codec import Message
from foundation.protocol.control import (
    MAX_KEYS,
    MAX_VALUES_KEYS,
    Command,
    Control,
    Status,
    max_values_keys,
)
from foundation.protocol.header import (
    CONTROL_SHAPES,
    CONTROLLER_CALLER,
    DIMS,
    HEADER_BYTES,
    KEYS,
    LANES,
    LAYOUT,
    NO_KEY,
    SHAPES,
    VALUES,
    WORD_SHAPES,
    Header,
    Op,
    bits_of_fields,
    lanes_of_dim,
)
from hosts import scapy as agents
from hosts.scapy import packets
from hosts.scapy.packets import Address, Hotline, fault_of, packet_of
from tests.harness import scapy_messages
from tests.harness.wire import is_rpc

ANY = Address("10.0.1.1", 20_001)
FOLDER = Path(agents.__file__).parent
BITS = bits_of_fields()


def variants(header: Header) -> Iterator[Header]:
    """Yield a header, and those with an extreme in one field."""
    yield header
    for name, bits in BITS.items():
        for value in {0, 1, 2 ** (bits - 1), 2**bits - 1} - {getattr(header, name)}:
            yield header._replace(**{name: value})


def accepts(datagram: bytes) -> bool:
    return fault_of(packet_of(datagram, ANY, ANY)) is None


@pytest.mark.parametrize(("op", "flags"), sorted(SHAPES | WORD_SHAPES))
def test_every_type_of_rpc_has_the_same_bytes(op: int, flags: int) -> None:
    """Also with the extremes of each field, of which some make it malformed, and with each length."""
    checked = 0
    for count in (0,) if op == Op.EMPTY else (1, 2, LANES):
        header = Header(op=op, flags=flags, count=count, live=2**count - 1)
        keys = np.array([0, NO_KEY, *range(2, count)][:count], np.uint64) if flags & KEYS else None
        values = np.array([2**32 - 1, 0, *range(2, count)][:count], np.uint32) if flags & VALUES else None
        whole = codec.build(Message(header, keys, values))
        for each in variants(header):
            datagram = LAYOUT.pack(*each) + whole[HEADER_BYTES:]
            is_accepted = accepts(datagram)
            assert is_accepted == (is_rpc(each, len(datagram)) and each.op != Op.CONTROL), each
            if is_accepted:
                message = Message(each, keys, values)
                assert scapy_messages.build(message) == datagram
                found = scapy_messages.parse(datagram)
                assert found.header == each
                lists = [(found.keys, keys), (found.values, values)]
                for mine, theirs in lists:
                    assert (mine is None) == (theirs is None)
                    assert mine is None or theirs is None or mine.tolist() == theirs.tolist()
                checked += 1
        for length in {*range(0, HEADER_BYTES + 13), len(whole) - 1, len(whole) + 1, len(whole) + 12}:
            datagram = (whole + bytes(12))[:length]
            assert accepts(datagram) == (len(datagram) == len(whole)), length
    assert checked >= len(BITS)


@pytest.mark.parametrize(("op", "flags"), sorted(SHAPES | WORD_SHAPES))
def test_rows_of_every_dim_have_the_same_bytes(op: int, flags: int) -> None:
    for dim in DIMS if op != Op.EMPTY else ():
        for count in {1, lanes_of_dim(dim)}:
            header = Header(op=op, flags=flags, count=count, dim=dim, live=2**count - 1)
            keys = np.arange(count, dtype=np.uint64) if flags & KEYS else None
            values = np.arange(count * dim, dtype=np.uint32) if flags & VALUES else None
            datagram = codec.build(Message(header, keys, values))
            found = scapy_messages.parse(datagram)
            assert found.header == header and scapy_messages.build(found) == datagram
            assert values is None or (found.values is not None and found.values.tolist() == values.tolist())
            for each in (header._replace(dim=other) for other in (0, 2, 3, *DIMS, 255)):
                changed = LAYOUT.pack(*each) + datagram[HEADER_BYTES:]
                assert accepts(changed) == is_rpc(each, len(changed)), each
            for changed in (datagram[:-1], datagram + b"!", datagram + bytes(4 * dim)):
                assert not accepts(changed)


def test_a_datagram_whose_counts_exceed_its_length_is_malformed() -> None:
    """Whatever its length: a long list of Scapy's would be an error, which ends an agent."""
    for length in (HEADER_BYTES, 1_400, 65_507):
        for flags in (KEYS, VALUES, KEYS | VALUES):
            head = LAYOUT.pack(*Header(op=Op.PUSH, flags=flags, count=255, dim=255, live=1))
            assert not accepts(head + bytes(length - HEADER_BYTES))
        for command in Command:
            head = LAYOUT.pack(*Header(op=Op.CONTROL, worker=CONTROLLER_CALLER, dim=128))
            body = bytes([command, 0, 0, 0, 255, 255, 255, 255])
            assert not accepts((head + body + bytes(length))[:length])


def test_other_types_are_no_rpcs() -> None:
    known = {*SHAPES, *WORD_SHAPES, *CONTROL_SHAPES}
    for op, flags in set(product(range(6), range(256))) - known:
        assert not accepts(LAYOUT.pack(*Header(op=op, flags=flags)))


@pytest.mark.parametrize(
    ("command", "is_answer", "status"),
    [*product(Command, [False], [Status.OK]), *product(Command, [True], Status)],
)
def test_every_command_has_the_same_bytes(command: Command, is_answer: bool, status: Status) -> None:
    """With each number of keys that matters, of which some are refused by both."""
    accepted = 0
    for dim, n in (
        *product([1], (0, 1, 2, 3, MAX_VALUES_KEYS, MAX_VALUES_KEYS + 1, MAX_KEYS, MAX_KEYS + 1)),
        *((dim, max_values_keys(dim) + more) for dim in DIMS[1:] for more in (0, 1)),
    ):
        for top in (2**32 - 1, 2**64 - 1):
            keys = np.array([top, *range(1, n)][:n], np.uint64)
            has_values = is_answer and command in control.WITH_VALUES and status is Status.OK
            values = np.arange(n * dim, dtype=np.uint32) if has_values else None
            made = Control(command, 2**16 - 1, 3, 2**32 - 1, 5, keys, is_answer, status, values, dim)
            datagram = control.build(made)
            try:
                control.parse(datagram)
            except MalformedDatagram:
                assert not accepts(datagram)
                continue
            accepted += 1
            packet = packet_of(datagram, ANY, ANY)
            assert fault_of(packet) is None and bytes(packet[Hotline]) == datagram
            for changed in (
                datagram[:-1],
                datagram + b"!",
                _with_byte(datagram, 2, 1),
                _with_byte(datagram, 1, 9),
            ):
                assert not accepts(changed)
    assert accepted


def _with_byte(datagram: bytes, index: int, value: int) -> bytes:
    at = HEADER_BYTES + index
    return datagram[:at] + bytes([value]) + datagram[at + 1 :]


@pytest.mark.parametrize("changes", [{"worker": 7}, {"count": 1}, {"live": 1}, {"flags": 3}, {"version": 2}])
def test_a_command_with_a_wrong_header_is_malformed(changes: dict[str, int]) -> None:
    body = control.build(Control(Command.HELLO, 1, 2, 3, 4, np.zeros(0, np.uint64)))
    header = Header._make(LAYOUT.unpack_from(body))
    assert accepts(body) and not accepts(LAYOUT.pack(*header._replace(**changes)) + body[HEADER_BYTES:])


@pytest.mark.parametrize(("proc", "queue", "stamped"), [(5, 7, (5, 7)), (2**40, -3, (2**32 - 1, 0))])
def test_times_in_an_answer_are_clamped_to_32_bits(proc: int, queue: int, stamped: tuple[int, int]) -> None:
    datagram = packets.stamp(bytes(Hotline(seq=2**32 - 1, residence=2**32 - 1)), proc, queue)
    assert (
        Hotline(datagram).fields | {"ps_proc": 0, "ps_queue": 0}
        == Hotline(bytes(Hotline(seq=2**32 - 1, residence=2**32 - 1))).fields
    )
    assert (Hotline(datagram).ps_proc, Hotline(datagram).ps_queue) == stamped


COMPILED = (
    "numba",
    "nativekit",
    "foundation.compiled",
    "foundation.protocol.rpc",
    "hotline_agents.hotset",
    "hotline_agents.none",
)
OF_COMPILED_AGENTS = ("hotline_agents.ps", "hotline_agents.worker")
ALLOWED = {
    "hosts.ps_config",
    "hosts.worker_config",
    "hotline_agents.rpc_cost",
}  # settings, and the type of a cost


def imported(file: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(file.read_text())))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.py")), ids=lambda file: file.stem)
def test_agents_of_scapy_import_no_compiled_agent(file: Path) -> None:
    forbidden = tuple(f"{name}." for name in (*COMPILED, *OF_COMPILED_AGENTS))
    assert not [name for name in imported(file) - ALLOWED if f"{name}.".startswith(forbidden)]


def test_the_state_machines_need_neither_numba_nor_records() -> None:
    """In a new process, as this one has imported everything."""
    machines = "hosts.scapy.worker, hosts.scapy.server, hosts.scapy.moves, hosts.scapy.window"
    loaded = (
        f"import sys, {machines}; print(*sorted({{'numba', 'llvmlite', 'nativekit'}} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_files_can_be_read_in_an_hour() -> None:
    lengths = {file.name: len(file.read_text().splitlines()) for file in FOLDER.glob("*.py")}
    assert max(lengths.values()) <= 320, lengths
