"""Fuzz a parameter server with datagrams: its compiled code and the same code as plain Python must agree.

Coverage is measured in the plain code, which raises `IndexError` where compiled code writes out of bounds.
The first byte of an input is `s` for sparse keys. The rest is a list of events, whose first byte is the kind.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from foundation.errors import MalformedDatagram
from foundation.protocol import codec, control
from foundation.protocol.control import Command
from foundation.protocol.hashing import ps_of
from foundation.protocol.header import NO_KEY, Op, unpack
from hosts.keys import KeySpace
from hotline_agents.hotset.ps.parameter_server import ParameterServer
from tests.harness.wire import reply
from tools.fuzz.datagrams import EPOCH, JOB, answer, command, rpc
from tools.fuzz.target import MARK, Target, parts

SIZE, PS, N_PS = 64, 0, 2
PS_EPOCH = 7  # of the PS as a caller of the switch
JOURNAL_BYTES = 1 << 16
"""Size of the journal, so large that no input fills it."""
DENSE, SPARSE = KeySpace(SIZE), KeySpace(SIZE, np.arange(SIZE, dtype=np.uint64) * np.uint64(2**58))
DATA, OWN_ANSWER, SWITCH_ANSWERS, DEADLINE, KINDS = range(5)
"""Kinds of events: a request, an answer to a PS's own RPC, answers of the switch, a deadline; their count."""
OWNED_KEYS = [key for key in range(SIZE) if ps_of(key, N_PS) == PS][:4]
OTHER_KEY = next(key for key in range(SIZE) if ps_of(key, N_PS) != PS)


class Bench:
    """A PS with its clock and its outstanding RPCs."""

    def __init__(self, space: KeySpace, as_plain: bool) -> None:
        self.now = 0
        self.ps: ParameterServer[int] = ParameterServer(
            PS, N_PS, space, {JOB: PS_EPOCH}, lambda: self.now, as_plain, journal_bytes=JOURNAL_BYTES
        )
        self.outstanding: list[bytes] = []
        """Register RPCs that the switch has not answered."""

    def play(self, kind: int, data: bytes) -> object:
        """Play an event; return the answer and the observable state."""
        ps, reply = self.ps, None
        if kind == DATA:
            reply = ps.handle(data, arrival=self.now, read=self.now, source=0)
        elif kind == OWN_ANSWER:
            ps.receive_rpc_answer(data, self.now)
        elif kind == DEADLINE and (due := ps.deadline()) is not None:
            self.now = due
            ps.wake(due)
        elif kind == SWITCH_ANSWERS:
            served = int.from_bytes(data[:4], "big")
            waiting, self.outstanding = self.outstanding, []
            for request in waiting:
                ps.receive_rpc_answer(_switch_answer(request, served), self.now)
        self.outstanding += map(bytes, ps.transmit())
        state = ps.server.state
        return (
            reply, [*self.outstanding], list(ps.control_answers()), ps.malformed, state.cells.tobytes(),
            state.jobs.tobytes(), state.callers[state.callers.in_use == 1].tobytes(),
            int(state.header.misdirected), state.journal[: state.header.journal_length].tobytes(),
        )  # fmt: skip


def _switch_answer(request: bytes, served: int) -> bytes:
    """Return the answer of a switch that has entries for these lanes."""
    header = codec.parse(request).header
    return reply(header, np.arange(header.count), served=served & header.live)


def run(data: bytes) -> Hashable:
    space = SPARSE if data[:1] == b"s" else DENSE
    benches = [Bench(space, as_plain) for as_plain in (True, False)]
    ps = benches[0].ps
    for part in parts(data[1:]):
        kind, rest = (part[0] if part else 0) % KINDS, part[1:]
        malformed = ps.malformed
        plain, compiled = (bench.play(kind, rest) for bench in benches)
        assert plain == compiled, "the plain and the compiled PS differ"
        if kind == DATA:
            assert (ps.malformed > malformed) == _is_malformed(rest), "the codec and the PS differ"
    state, recovered = ps.server.state, Bench(space, as_plain=False)
    recovered.ps.recover({}, [state.journal[: state.header.journal_length].tobytes()])
    assert recovered.ps.server.state.cells.tobytes() == state.cells.tobytes(), "the recovered state differs"
    row = ps.server.counters[JOB]
    dropped = (ps.malformed, ps.server.misdirected, row.duplicates, row.stale)
    return tuple(bool(number) for number in (*dropped, row.refused_lanes, row.overflows))


def _is_malformed(data: bytes) -> bool:
    try:
        if unpack(data).op == Op.CONTROL:
            control.parse(data)
    except MalformedDatagram:
        return True
    return False


def script(*events: tuple[int, bytes], sparse: bool = False) -> bytes:
    """Return an input with these events, each a kind and its data."""
    return (b"s" if sparse else b"d") + MARK.join(bytes([kind]) + data for kind, data in events)


def seeds() -> list[bytes]:
    # The first sequence numbers of slots 0, 1, ... are 64, 65, ...
    push, pull = rpc(Op.PUSH, [*OWNED_KEYS, NO_KEY, OTHER_KEY], 64), rpc(Op.PULL, OWNED_KEYS, 65)
    # The last value is the largest int32, so that adding it again overflows.
    large = rpc(Op.PUSH, OWNED_KEYS, 66)[:-4] + b"\x7f\xff\xff\xff"
    resent = large.replace((66).to_bytes(4, "big"), (67).to_bytes(4, "big"))
    seed, collect = (
        command(code, OWNED_KEYS[:2], n) for n, code in enumerate((Command.SEED, Command.COLLECT), 1)
    )
    values = command(Command.VALUES, OWNED_KEYS, 3)
    served = (SWITCH_ANSWERS, b"\xff" * 4)
    renew = command(Command.RENEW, [8], 4)
    # In the epoch after a loss of the switch a worker asks about its push with sequence number 64.
    query = rpc(Op.EMPTY, [], 64, iteration=64, t0=EPOCH, epoch=EPOCH + 1)
    calls = [(DATA, data) for data in (push, push, pull, large, resent)]
    return [
        script(*calls),
        *(script((DATA, command(code, [], 5)), served) for code in Command),
        *(script((DATA, command(code, [2**64 - 1], 6)), served) for code in Command),
        script((DATA, rpc(Op.PUSH, [0, 2**58 * 2, 2**58 * 3, 1], 64)), (DATA, pull), sparse=True),
        script(
            (DATA, push), (DATA, seed), served, (DATA, push), (DATA, collect), served, served, (DATA, values)
        ),
        script(
            (DATA, seed), (DEADLINE, b""), (SWITCH_ANSWERS, bytes(4)), (DATA, command(Command.HELLO, [], 4))
        ),
        script((DATA, push), (DATA, query), (DATA, seed), served, (DATA, renew), (DATA, query), (DATA, push)),
        script(
            (DATA, rpc(Op.EMPTY, [], 64)),
            (DATA, rpc(Op.PULL, OWNED_KEYS, 65, served=2)),
            (OWN_ANSWER, answer(pull)),
        ),
    ]


TARGET = Target(
    "ps",
    run,
    (
        "packages/agents/src/hotline_agents/ps",
        "packages/agents/src/hotline_agents/worker",
        "packages/agents/src/hotline_agents/hotset",
        "src/foundation/protocol",
    ),
    seeds,
)
