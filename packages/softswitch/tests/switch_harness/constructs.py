"""The programs of `tests/programs` that cover P4's constructs.

They come with state for their tables, and with frames that take many of their paths.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random

from softswitch.ir import Masked, Program
from softswitch.load import load_program
from softswitch.pipeline import (
    ActionCall,
    Change,
    ControlPlane,
    EntryAction,
    EntryKey,
    EntryWrite,
    MeterConfig,
    Replica,
    UseGroup,
    UseMember,
)
from switch_harness import PROGRAMS

CLONE_PORTS = (4, 5)


@cache
def compiled(name: str) -> Program:
    return load_program((PROGRAMS / f"{name}.json").read_bytes())


def insert(
    pipeline: ControlPlane, table: str, key: tuple[int | Masked, ...], action: EntryAction, priority: int = 0
) -> EntryKey:
    results = pipeline.tables.write([EntryWrite(Change.INSERT, table, key, action, priority)])
    assert results == [None], results
    return EntryKey(table, key, priority)


# -- state


def no_state(pipeline: ControlPlane) -> None:
    """Draw no state, for programs without tables."""


def fill_value_sets(pipeline: ControlPlane) -> None:
    pipeline.cells.write_value_set("P.kinds", [(7,), (0x800,), (0xFF01,)])
    pipeline.cells.write_value_set("P.pairs", [(1, 2), (0x7F, 0x1FF), (3, 5)])


def fill_divisors(pipeline: ControlPlane) -> None:
    for priority, (value, three, divisor) in enumerate(
        [(0xFF, Masked(0, 0), 1), (5, Masked(5, 7), 255), (5, Masked(0, 1), 7), (0x80, Masked(1, 1), 128)]
    ):
        action = ActionCall("Calculate.divide", (divisor,))
        insert(pipeline, "Calculate.divisors", (value, three), action, priority + 1)


def replicate(pipeline: ControlPlane) -> None:
    pipeline.replication.write_multicast_group(1, [Replica(1, 1), Replica(2, 2), Replica(3, 3)])
    pipeline.replication.write_multicast_group(2, [Replica(2, 9)])
    pipeline.replication.write_clone_session(1, [Replica(CLONE_PORTS[0])])
    pipeline.replication.write_clone_session(2, [Replica(CLONE_PORTS[1])])
    pipeline.replication.write_clone_session(3, [Replica(CLONE_PORTS[0], 7), Replica(CLONE_PORTS[1], 8)])


def fill_profiles(pipeline: ControlPlane) -> None:
    choices, paths = "Choose.choices", "Choose.paths"
    pipeline.profiles.write_member(choices, 1, ActionCall("Choose.choose", (0x1111,)))
    pipeline.profiles.write_member(choices, 2, ActionCall("Choose.refuse"))
    for member in range(1, 6):
        pipeline.profiles.write_member(paths, member, ActionCall("Choose.balance", (member,)))
    pipeline.profiles.write_member(paths, 6, ActionCall("Choose.leave_out"))
    pipeline.profiles.write_group(paths, 1, [1, 2, 3])
    pipeline.profiles.write_group(paths, 2, [4, 5, 6])
    insert(pipeline, "Choose.profiled", (1,), UseMember(1))
    insert(pipeline, "Choose.profiled", (2,), UseMember(2))
    insert(pipeline, "Choose.selected", (Masked(1, 0xFF),), UseGroup(1), 9)
    insert(pipeline, "Choose.selected", (Masked(2, 2),), UseGroup(2), 5)
    insert(pipeline, "Choose.selected", (Masked(4, 4),), UseMember(6), 4)
    insert(pipeline, "Choose.first", (2,), UseMember(1))
    insert(pipeline, "Choose.first", (4,), UseMember(2))
    insert(pipeline, "Choose.plain", (Masked(0x100, 0xFF00),), ActionCall("Choose.share", (3,)))
    insert(pipeline, "Choose.plain", (Masked(0, 0),), ActionCall("Choose.share", (1,)))


def fill_branches(pipeline: ControlPlane) -> None:
    actions = ("leave_early", "leave", "add_up", "multiply", "wind_down", "drop_odd", "NoAction")
    for op, name in enumerate(actions):
        qualified = name if name == "NoAction" else f"Branch.{name}"
        for flag in (0, 0x80):
            insert(pipeline, "Branch.chosen", (flag | op,), ActionCall(qualified))
    insert(pipeline, "Branch.chosen", (7,), ActionCall("Branch.compare", (3,)))
    insert(pipeline, "Branch.chosen", (0x87,), ActionCall("Branch.compare", (3,)))
    insert(pipeline, "Branch.last", (4,), ActionCall("Branch.leave_early"))


def fill_no_bits(pipeline: ControlPlane) -> None:
    pipeline.replication.write_clone_session(1, [Replica(CLONE_PORTS[0])])
    insert(pipeline, "Forward.choices", (8,), ActionCall("Forward.put", (5,)))
    insert(pipeline, "Forward.choices", (9,), ActionCall("Forward.put_both", (0, 6)))


def fill_meters(pipeline: ControlPlane) -> None:
    pipeline.cells.write_meter("Measure.packets", 0, MeterConfig(1, 2, 1, 4))
    pipeline.cells.write_meter("Measure.packets", 1, MeterConfig(200_000, 1, 500_000, 3))
    pipeline.cells.write_meter("Measure.octets", 0, MeterConfig(1, 40, 1, 100))
    pipeline.cells.write_meter("Measure.octets", 2, MeterConfig(3_000_000, 30, 7_000_000, 60))
    first = insert(pipeline, "Measure.first", (1,), ActionCall("Measure.first_hit"))
    insert(pipeline, "Measure.first", (2,), ActionCall("Measure.first_hit"))
    pipeline.tables.set_meter(first, MeterConfig(1, 3, 1, 5))
    second = insert(
        pipeline, "Measure.second", (Masked(0x80, 0x80),), ActionCall("Measure.second_hit", (16,))
    )
    insert(pipeline, "Measure.second", (Masked(0x80, 0xFF),), ActionCall("Measure.second_hit", (32,)))
    pipeline.tables.set_meter(second, MeterConfig(1, 50, 1, 120))


# -- frames


def octets(random: Random, count: int) -> bytes:
    """Draw bytes, of which 0 and 255 are frequent."""
    return bytes(random.choice([0, 255, random.randrange(256), random.randrange(256)]) for _ in range(count))


def tail(random: Random) -> bytes:
    return random.randbytes(random.choice([0, 0, 1, 7, 20]))


def cut(random: Random, frame: bytes) -> bytes:
    return frame[: random.randrange(len(frame))] if frame and random.random() < 0.15 else frame


def unions(random: Random) -> bytes:
    first = random.randrange(5)
    parts = [bytes([random.randrange(12), first]), bytes(3)]
    parts.append(random.randbytes({1: 3, 2: 6, 3: 9}.get(first, 0)))
    for _ in range(random.randrange(5)):
        kind = random.randrange(1, 3)
        parts.append(bytes([kind]) + random.randbytes(2 if kind == 1 else 5))
    return b"".join(parts) + b"\0" + tail(random)


def varbit_list(random: Random) -> bytes:
    bits = random.choice([0, 8, 24, 64, 128, 128, 12, 136])
    return bytes([bits]) + random.randbytes(bits // 8 + 2)


def varbits(random: Random) -> bytes:
    op = random.randrange(16) | random.choice([0, 0x40, 0x40, 0x80])
    parts = [bytes([op]), bytes(5), varbit_list(random)]
    if not op & 0x80:
        parts.append(varbit_list(random))
    for left in reversed(range(random.randrange(5))):
        size = random.choice([0, 1, 3, 8, 9])
        parts.append(bytes([size, left]) + random.randbytes(size))
    return b"".join(parts) + tail(random)


def stacks(random: Random) -> bytes:
    op = random.randrange(13) | random.choice([0, 0, 0, 0, 0xE0, 0xF0])
    position = random.randrange(5) * (8 if op & 0xF0 == 0xE0 and random.random() < 0.7 else 1)
    parts = [bytes([op, position]), bytes(6)]
    if op >= 0xE0:
        parts.append(random.randbytes(position // 8 if op < 0xF0 else position))
    for _ in range(random.randrange(6)):
        kind = random.choice([1, 1, 1, 2, 3, 4])
        parts.append(bytes([kind << 4 | random.randrange(16)]) + octets(random, 1))
        if kind == 2:
            parts.append(random.randbytes(2))
        elif kind == 4:
            parts.append(random.choice([b"\x77", b"\x77", b"\x78"]))
    return b"".join(parts) + random.choice([b"\0\0", b""]) + tail(random)


def value_sets(random: Random) -> bytes:
    kind = random.choice([1, 7, 0x800, 0xFF01, 0xFF02, 9])
    narrow, wide = random.choice([1, 3, 0x7F, 5]), random.choice([1, 2, 5, 0x1FF])
    parts = kind.to_bytes(2, "big") + (narrow << 9 | wide).to_bytes(2, "big") + b"\0"
    return parts + bytes([random.choice([3, 9, 10, 100, 101])]) + tail(random)


def arithmetic(random: Random) -> bytes:
    signed = [random.choice([0xFF, 0x80, 0x7F, 5, random.randrange(256)]) for _ in range(2)]
    middle = random.getrandbits(13) << 43 | random.choice([0, 1, 5, 7]) << 40 | random.getrandbits(40)
    head = octets(random, 2) + bytes(signed) + middle.to_bytes(7, "big")
    if random.random() < 0.2:
        head = head[:1] * 2 + head[2:]
    wide = octets(random, 64)
    return head + octets(random, 16) + wide + random.choice([wide, octets(random, 64)]) + tail(random)


def replication(random: Random) -> bytes:
    op = random.getrandbits(7) | (0x80 if random.random() < 0.1 else 0)
    port = random.choice([1, 2, 3, 255])
    group, session, length = random.choice([1, 2, 9]), random.choice([0, 1, 2, 3]), random.randrange(4, 40)
    fields = b"".join(value.to_bytes(2, "big") for value in (group, session, length))
    return bytes([op, port]) + fields + bytes(8) + random.randbytes(random.choice([0, 4, 9, 30]))


def rounds(random: Random) -> bytes:
    op = random.getrandbits(4)
    most_laps = 2 if op & 2 else 4  # each lap makes three of one packet
    laps = random.randrange(3) << 4 | random.randrange(most_laps)
    probe = bytes([op, laps, random.choice([1, 2, 3])]) + bytes(6)
    return random.choice([b"", b"\xf1\x00"]) + probe + tail(random)


def profiles(random: Random) -> bytes:
    flow = random.choice([random.getrandbits(16), 0x100 | random.randrange(16)])
    return (
        bytes([random.randrange(4), random.randrange(9)]) + flow.to_bytes(2, "big") + bytes(7) + tail(random)
    )


def meters(random: Random) -> bytes:
    keys = [random.randrange(5), random.randrange(4), random.choice([0x80, 0x81, 0, 1])]
    return bytes(keys) + bytes(4) + tail(random)


def digests(random: Random) -> bytes:
    bounds = (random.choice([0, 5, 0x1000]), random.choice([4, 5, 0xFFFF]))
    numbers = b"".join(bound.to_bytes(2, "big") for bound in bounds)
    return bytes([random.getrandbits(8), *octets(random, 1)]) + numbers + bytes(2) + octets(random, 6)


def hashes(random: Random) -> bytes:
    op = random.getrandbits(8)
    numbers = random.choice([0, 0, 100, 0xFFF0]).to_bytes(2, "big") + octets(random, 2)
    parts = [bytes([op]), octets(random, 7), numbers, b"\0"]
    if op & 1:
        parts.append(octets(random, 4))
    return b"".join(parts) + octets(random, 12) + random.randbytes(random.choice([0, 1, 2, 5, 40]))


def registers(random: Random) -> bytes:
    op = random.choice([0, 1, 2, 3, 9]) | random.choice([0, 0x80])
    index = random.choice([random.randrange(8), random.randrange(8), 8, 9, 255])
    return bytes([op, index]) + octets(random, 35) + b"\0" + tail(random)


def lookups(random: Random) -> bytes:
    kind, value = (random.choice([random.randrange(10), random.randrange(256), 0x80, 0xFF]) for _ in range(2))
    signed, flags = (random.choice([random.randrange(10), random.getrandbits(16), 0xFFFF]) for _ in range(2))
    address = random.choice([0, 5, 1 << 127, (1 << 128) - 1, random.getrandbits(128)]).to_bytes(16, "big")
    probe = bytes([kind, value]) + signed.to_bytes(2, "big") + flags.to_bytes(2, "big") + bytes(4)
    return probe + random.choice([b"", address]) + random.choice([b"", address]) + tail(random)


def traffic(random: Random) -> bytes:
    ops = [random.getrandbits(7) & random.choice([0x7F, 0x77, 0x67, random.getrandbits(7)]) for _ in range(2)]
    passes, port = random.choice([0, 1, 1, 2]), random.choice([1, 2, 3, 4])
    if passes and ops[1] & 0x20:  # not so many copies that a queue of BMv2's, of 64 packets, overflows
        ops[0] &= random.choice([0x1F, 0x3C, 0x5C])
        passes = 1 if ops[0] & 0x23 else passes
    group, session, cut = random.randrange(4), random.randrange(4), random.choice([0, 5, 8, 20, 30, 200])
    return bytes([*ops, passes, port, group, session]) + cut.to_bytes(2, "big") + tail(random)


def jumps(random: Random) -> bytes:
    """Draw a frame whose `laps` is never 0, for which `wind_down` has no end."""
    op = random.randrange(9) | random.choice([0, 0x80])
    left, right = (random.choice([random.randrange(12), random.randrange(256), 255]) for _ in range(2))
    probe = bytes([op, left, right, random.randrange(1, 20)]) + octets(random, 8)
    return probe + bytes([random.randrange(8)]) + octets(random, 2 if op & 0x80 else 0) + tail(random)


def copies(random: Random) -> bytes:
    # Not 0x31: egress threads of BMv2 would race for the register.
    egress_op = random.choice([0, 0x10, 0x20, 0x30, *range(0x32, 0x3D)])
    ops = bytes([random.getrandbits(8) & random.choice([0x0F, 0x1F, 0x8F, 0xFF]), egress_op])
    probe = bytes([random.randrange(1, 6), random.randrange(4)]) + octets(random, 4)
    items = b"".join(bytes([1]) + octets(random, 1) for _ in range(random.randrange(5)))
    return ops + probe + items + random.choice([b"", b"\2", b"\3\3\3"]) + tail(random)


def invalid_keys(random: Random) -> bytes:
    has_option = random.random() < 0.5
    parts = [bytes([random.randrange(12), 0x80 if has_option else 0]), bytes(6)]
    if has_option:
        head = random.choice([0x50123, 0x50000, 0x00123, random.getrandbits(24)])
        parts.append(head.to_bytes(3, "big") + random.choice([b"\x7f", octets(random, 1)]))
    parts += [random.choice([b"\x41", b"\x41", b"\x40"]) for _ in range(random.choice([0, 1, 3, 3]))]
    return b"".join(parts) + random.choice([b"", b"\x51", b"\x61\1"]) + tail(random)


def no_bits(random: Random) -> bytes:
    return bytes([random.randrange(12)]) + octets(random, 1) + tail(random)


PULLED_SUMS = tuple(bytes(4) + (three << 40).to_bytes(7, "big") + bytes(144) for three in range(8))
PULLED_REGISTERS = tuple(bytes([0, index]) + bytes(36) for index in range(8))


@dataclass(frozen=True)
class Construct:
    """A program by name, what is written before its packets, and how its packets are drawn.

    `pulls` are frames that come back with what is in each register.
    """

    name: str
    prepare: Callable[[ControlPlane], None]
    draw: Callable[[Random], bytes]
    pulls: tuple[bytes, ...] = ()

    def frame(self, random: Random) -> tuple[int, bytes]:
        return random.choice([1, 2, 7]), cut(random, self.draw(random))


CONSTRUCTS = {
    construct.name: construct
    for construct in (
        Construct("header_unions", no_state, unions),
        Construct("varbit", no_state, varbits),
        Construct("stacks", no_state, stacks),
        Construct("value_sets", fill_value_sets, value_sets),
        Construct("arithmetic", fill_divisors, arithmetic, PULLED_SUMS),
        Construct("replication", replicate, replication),
        Construct("resubmit_recirculate", replicate, rounds),
        Construct("profiles", fill_profiles, profiles),
        Construct("meters", fill_meters, meters),
        Construct("digests_logs", replicate, digests),
        Construct("hashes", no_state, hashes),
        Construct("registers", no_state, registers, PULLED_REGISTERS),
        Construct("lookups", no_state, lookups),
        Construct("traffic", replicate, traffic),
        Construct("jumps", fill_branches, jumps),
        Construct("copies", replicate, copies),
        Construct("invalid_keys", no_state, invalid_keys),
        Construct("no_bits", fill_no_bits, no_bits),
    )
}
