"""The committed program with a small network in its tables: two workers, a PS, a controller.

Job 1 offloads and proxies, job 2 does not. Ports: worker 1 on 1, worker 2 on 2, PS 0 on 3.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from controller.sizes import SLOTS
from controller.status import drop_reasons
from controller.tables import CPU_PORT, CallerKind
from foundation.protocol.frames import packet_out_header
from foundation.protocol.hashing import lane_of
from foundation.protocol.header import (
    CONTROLLER_CALLER,
    HOTLINE_PORT,
    LANES,
    PS_CALLER_BASE,
    PS_RPC_PORT,
    WINDOW_BITS,
    Op,
)
from softswitch.compiled import CompiledPipeline
from softswitch.ir import Program
from softswitch.jit import MachineCode
from softswitch.load import load_program
from softswitch.pipeline import ActionCall, Change, ControlPlane, CounterValue, EntryWrite
from tests.harness import frames

COMPILED = Path(__file__).parents[2] / "p4src" / "compiled"
HOTSET = COMPILED / "hotset.json"
FOR_TESTS = Path(__file__).parents[1] / "programs" / "compiled"
FOR_64_LANES = FOR_TESTS / "hotline_64.json"
INGRESS = "HotlineIngress."
EPOCH = 9
OFFLOADED, PLAIN = 1, 2
JOBS = {OFFLOADED: (1, 1), PLAIN: (0, 0)}

WORKER = {n: (f"02:00:00:00:01:{n:02x}", f"10.0.1.{n}", 20000) for n in (1, 2)}
SERVER = ("02:00:00:00:02:01", "10.0.2.1", HOTLINE_PORT)
SERVER_RPC = (SERVER[0], SERVER[1], PS_RPC_PORT)
SERVICE = ("02:00:00:00:03:01", "10.0.3.1", HOTLINE_PORT)
CONTROLLER = ("02:00:00:00:04:01", "10.0.4.1", HOTLINE_PORT + 2)
SERVER_PORT = 3

CALLERS = {
    1: (WORKER[1], 1),
    2: (WORKER[2], 2),
    PS_CALLER_BASE: (SERVER_RPC, 3),
    CONTROLLER_CALLER: (CONTROLLER, CPU_PORT),
}
"""Worker id -> (end, switch port)."""
KEY_OF = [next(key for key in range(10_000) if lane_of(key) == lane) for lane in range(LANES)]
"""A key of each lane."""


Code = tuple[Program, MachineCode]


def program(lanes: int = LANES) -> Program:
    return _load({LANES: HOTSET, 64: FOR_64_LANES}[lanes])


@cache
def _load(artefact: Path) -> Program:
    return load_program(artefact.read_bytes())


@cache
def code_of(artefact: Path) -> Code:
    return _load(artefact), MachineCode(_load(artefact))


def new_switch() -> CompiledPipeline:
    """Return the compiled program with empty tables."""
    return CompiledPipeline(*code_of(HOTSET))


def number(text: str) -> int:
    return int.from_bytes(
        bytes(int(p, 16) for p in text.split(":")) if ":" in text else bytes(map(int, text.split("."))), "big"
    )


def numbers(end: tuple[str, str, int]) -> tuple[int, int, int]:
    """Return an end's MAC, address and UDP port as integers."""
    return number(end[0]), number(end[1]), end[2]


def insert(table: str, key: tuple[int, ...], action: str, *args: int) -> EntryWrite:
    return EntryWrite(Change.INSERT, INGRESS + table, key, ActionCall(INGRESS + action, args))


def request(
    op: Op, lanes: dict[int, tuple[int, int]], seq: int, caller: int = 1, job: int = OFFLOADED, **fields: int
) -> tuple[int, bytes]:
    """Return the port of a caller, and the frame of its request to PS 0."""
    end, port = CALLERS[caller]
    fields = {"epoch": EPOCH, "ps": 0, **fields}
    rpc = frames.request(op, job=job, worker=caller, seq=seq, lanes=lanes, **fields)
    return port, frames.frame(rpc, src=end, dst=SERVICE)


def into(port: int, frame: bytes) -> bytes:
    """Return what enters a port for a frame: at the CPU port it is behind the header of a packet-out."""
    return packet_out_header(None) + frame if port == CPU_PORT else frame


def row_of(job: int, caller: int) -> int:
    return 8 * (job - 1) + list(CALLERS).index(caller)


def network() -> list[EntryWrite]:
    """Return all entries except those of the hot set."""
    entries = [
        insert("forward.forward", (number(end[0]),), "forward.forward_to", port)
        for end, port in (*CALLERS.values(), (SERVER, SERVER_PORT))
        if port != CPU_PORT and end is not SERVER_RPC
    ]
    for job, flags in JOBS.items():
        server = *numbers(SERVER), SERVER_PORT, *numbers(SERVICE)
        entries.append(insert("identify.jobs", (job,), "identify.set_job", *flags))
        entries.append(insert("identify.servers", (job, 0), "identify.set_server", *server))
        for caller, (end, port) in CALLERS.items():
            kind = CallerKind.PRIVILEGED if caller >= PS_CALLER_BASE else CallerKind.WORKER
            data = (row_of(job, caller), *numbers(end), port, kind)
            entries.append(insert("identify.workers", (job, caller, EPOCH), "identify.set_worker", *data))
    return entries


def hot_entry(
    change: Change, key: int, state: str, slot: int, lane: int, job: int = OFFLOADED, dim: int = 1
) -> EntryWrite:
    prefix = f"{INGRESS}lookup_{lane:02d}."
    action = None if change is Change.DELETE else ActionCall(prefix + state, (slot,))
    return EntryWrite(change, prefix + "hot_params", (job, dim, key), action)


def write(pipeline: ControlPlane, entries: list[EntryWrite]) -> None:
    failures = [error for error in pipeline.tables.write(entries) if error]
    assert not failures, failures


def cell(
    pipeline: ControlPlane, job: int, caller: int, slot: int, lanes: int = LANES
) -> tuple[int, int, int]:
    """Return (epoch, turn, served) of a caller's window slot."""
    index = row_of(job, caller) << WINDOW_BITS | slot
    [value] = pipeline.cells.read_register(INGRESS + "exactly_once.cells", index, index + 1)
    return value >> 32 + lanes, value >> lanes & 0xFFFFFFFF, value & (1 << lanes) - 1


def held(pipeline: ControlPlane, lane: int, slot: int) -> int:
    return pipeline.cells.read_register(f"{INGRESS}bank_{lane:02d}.values_a", slot, slot + 1)[0]


def drops(pipeline: ControlPlane) -> dict[str, int]:
    """Return dropped packets by reason, without zeros."""
    cells = pipeline.cells.read_counter(INGRESS + "drops", 0, len(drop_reasons()))
    return {
        reason: value.packets for reason, value in zip(drop_reasons(), cells, strict=True) if value.packets
    }


def lane_stats(pipeline: ControlPlane, lane: int) -> tuple[int, int, int]:
    """Return (hits, misses, overflows) of a lane."""
    hit, miss, overflow = pipeline.cells.read_counter(f"{INGRESS}bank_{lane:02d}.row_stats", 0, 3)
    return hit.packets, miss.packets, overflow.packets


def pushes(pipeline: ControlPlane, lane: int) -> dict[int, int]:
    """Return the pushes served by each slot of a lane, without zeros."""
    cells = pipeline.cells.read_counter(f"{INGRESS}bank_{lane:02d}.pushes", 0, SLOTS)
    return {slot: value.packets for slot, value in enumerate(cells) if value.packets}


def state_of(pipeline: ControlPlane) -> tuple[dict[str, list[int]], dict[str, list[CounterValue]]]:
    declared = pipeline.program
    registers = {r.name: pipeline.cells.read_register(r.name, 0, r.size) for r in declared.registers}
    counters = {c.name: pipeline.cells.read_counter(c.name, 0, c.size) for c in declared.counters}
    return registers, counters
