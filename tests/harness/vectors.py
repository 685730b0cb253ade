"""Random traffic for differential tests: mostly well-formed RPCs of every kind, some broken on purpose.

Sequence numbers follow an oracle's exactly-once cells: most RPCs are fresh, others duplicate, stale or ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

from controller.tables import CPU_PORT
from foundation.protocol.hashing import lane_of
from foundation.protocol.header import DIMS, LANES, QUAD, WINDOW_BITS, WORD_SHAPES, Header, Op
from softswitch.conformance.pairs import pairs_in
from softswitch.pipeline import Change, EntryWrite, Pipeline
from tests.harness import frames, testnet

STATES = ["hot", "hot", "hot", "reserved", "draining", "parked"]
SLOTS = 16
KEYS = 400
PAIRS, WITHOUT_PROGRAM = pairs_in([testnet.COMPILED], [Path(__file__).parents[1] / "vectors"])
"""The vectors in tests/vectors, each with the program that it is for."""
PLAIN_FRAMES = [bytes.fromhex("0200000001020200000001010806") + bytes(46), bytes(60)]


def lanes_for(dim: int, lanes: int = LANES) -> int:
    """Return the lanes of an RPC with rows of `dim` values, for a program of `lanes` lanes."""
    return QUAD * lanes // max(dim, QUAD)


def dim_of(key: int, dims: Sequence[int] = DIMS) -> int:
    """Return the values of a key's row: neighbouring keys have different ones."""
    return dims[key % len(dims)]


def hot_set(
    random: Random, keys: int = KEYS, lanes: int = LANES, dims: Sequence[int] = DIMS
) -> list[EntryWrite]:
    """Return entries for half of all keys in random states; slots overlap on purpose."""
    return [_entry(random, Change.INSERT, key, lanes, dims) for key in random.sample(range(keys), keys // 2)]


def _entry(random: Random, change: Change, key: int, lanes: int, dims: Sequence[int]) -> EntryWrite:
    state, slot, dim = random.choice(STATES), random.randrange(SLOTS), dim_of(key, dims)
    return testnet.hot_entry(change, key, state, slot, lane_of(key, lanes_for(dim, lanes)), dim=dim)


class Source:
    """Draws (ingress port, frame) for a program of `lanes` lanes; with `words` also of `WORD_SHAPES`.

    A row of one of `single_row_dims` has an RPC of its own.
    """

    def __init__(
        self,
        random: Random,
        oracle: Pipeline,
        lanes: int = LANES,
        words: bool = False,
        dims: Sequence[int] = DIMS,
        single_row_dims: Sequence[int] = (),
    ) -> None:
        self.single_row_dims = single_row_dims
        self.words = words
        self.random = random
        self.oracle = oracle
        self.of_program = lanes
        self.dims = dims
        self.by_lane: dict[tuple[int, int], list[int]] = {}
        """Dim and lane -> keys."""
        for key in range(KEYS):
            dim = dim_of(key, dims)
            self.by_lane.setdefault((dim, lane_of(key, self.lanes_for(dim))), []).append(key)

    def lanes_for(self, dim: int) -> int:
        return 1 if dim in self.single_row_dims else lanes_for(dim, self.of_program)

    def draw(self) -> tuple[int, bytes]:
        kind = self.random.random()
        if kind < 0.04:
            return self.random.choice([1, 2, 3]), self.random.choice(PLAIN_FRAMES)
        if kind < 0.14:
            port, frame = self.answer()
        else:
            port, frame = self.request()
        if self.random.random() < 0.08:
            frame = self.broken(frame)
        frame = testnet.into(port, frame)
        if port != CPU_PORT and self.random.random() < 0.02:
            port = self.random.choice([1, 2, 3])
        return port, frame

    def move(self) -> EntryWrite:
        """Draw a change of a key's entry."""
        key, change = self.random.randrange(KEYS), self.random.choice(list(Change))
        return _entry(self.random, change, key, self.of_program, self.dims)

    def request(self) -> tuple[int, bytes]:
        r = self.random
        job = r.choice([testnet.OFFLOADED] * 3 + [testnet.PLAIN])
        caller = r.choice(list(testnet.CALLERS))
        slot = r.randrange(8)
        _, turn, _ = testnet.cell(self.oracle, job, caller, slot, self.of_program)
        turn = max(0, turn + r.choice([1] * 12 + [0] * 5 + [-1, 2]))
        op = r.choice([Op.PULL, Op.PUSH, Op.PUSH, Op.EMPTY])
        dim = r.choice(self.dims)
        lanes = {} if op is Op.EMPTY else self.lanes(dim)
        fields = {"compiled_for": self.of_program, "dim": dim}
        if self.words and op is not Op.EMPTY and r.random() < 0.3:
            fields["flags"] = r.choice([flags for shape, flags in WORD_SHAPES if shape == op])
        fields["epoch"] = testnet.EPOCH if r.random() < 0.98 else 1
        fields["ps"] = 0 if r.random() < 0.98 else 5
        return testnet.request(op, lanes, turn << WINDOW_BITS | slot, caller, job, **fields)

    def lanes(self, dim: int) -> dict[int, tuple[int, int]]:
        """Return keys in their hash lanes, some empty, or any keys densely."""
        r = self.random
        count = r.randint(1, self.lanes_for(dim))
        if r.random() < 0.6:
            lanes = [lane for lane in range(count) if (dim, lane) in self.by_lane]
            chosen = {lane: r.choice(self.by_lane[dim, lane]) for lane in lanes}
            chosen = {lane: key for lane, key in chosen.items() if r.random() < 0.8} or {0: 1}
        else:
            chosen = {lane: r.randrange(2 * KEYS) for lane in range(count)}
        kind = r.randrange(3)
        return {lane: (key, self.value(kind)) for lane, key in chosen.items()}

    def value(self, kind: int) -> int:
        if kind == 0:
            return self.random.getrandbits(32)
        return self.random.randint(-100, 100) if kind == 1 else 0x7FFFFFFF

    def answer(self) -> tuple[int, bytes]:
        r = self.random
        op = r.choice(list(frames.ANSWER_FLAGS))
        dim = r.choice(self.dims)
        count = 0 if op in (Op.EMPTY, Op.CONTROL) else r.randint(1, self.lanes_for(dim))
        live = (1 << count) - 1
        served = r.getrandbits(self.of_program) & live
        header = Header(
            op=op,
            flags=frames.ANSWER_FLAGS[op],
            job=r.choice(list(testnet.JOBS)),
            worker=r.choice([1, 2]),
            epoch=testnet.EPOCH,
            count=count,
            dim=dim,
            seq=r.getrandbits(10),
            live=live,
            served=served,
            refused=r.getrandbits(self.of_program) & live & ~served,
            ps_proc=r.getrandbits(20),
        )
        values = [r.getrandbits(32) for _ in range(count * dim)] if op is Op.PULL else None
        rpc = frames.datagram(header, None, values, self.of_program)
        rpc += r.randbytes(r.randrange(40)) if op is Op.CONTROL else b""
        to = testnet.SERVICE if r.random() < 0.5 else testnet.WORKER[1]
        return testnet.SERVER_PORT, frames.frame(rpc, src=testnet.SERVER, dst=to)

    def broken(self, frame: bytes) -> bytes:
        """Flip a bit, cut the tail, append bytes, or make a fragment."""
        r = self.random
        match r.randrange(4):
            case 0:
                at = r.randrange(len(frame))
                return frame[:at] + bytes([frame[at] ^ 1 << r.randrange(8)]) + frame[at + 1 :]
            case 1:
                return frame[: r.randrange(15, len(frame))]
            case 2:
                return frame + r.randbytes(r.randint(1, 20))
        ip = frame[14:20] + bytes([0x20]) + frame[21:24] + b"\0\0" + frame[26:34]
        ip = ip[:10] + frames.internet_checksum(ip).to_bytes(2, "big") + ip[12:]
        return frame[:14] + ip + frame[34:]
