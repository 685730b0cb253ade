"""A plain model of design `collect`'s switch: published copies, pending sums, and exactly-once turns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from foundation.protocol.codec import parse
from foundation.protocol.header import SET, WINDOW, WINDOW_BITS, Op
from tests.harness.wire import MODULUS, reply

Row: TypeAlias = tuple[int, ...]


def add(row: Row, delta: Row) -> Row:
    return tuple((value + each) % MODULUS for value, each in zip(row, delta, strict=True))


@dataclass
class SwitchModel:
    hot: set[int] = field(default_factory=set)
    """Keys with an entry."""
    pending_rows: dict[int, Row] = field(default_factory=dict)
    published_rows: dict[int, Row] = field(default_factory=dict)
    turns: dict[tuple[int, int, int], tuple[int, int]] = field(default_factory=dict)
    """Turn and served lanes of the last RPC, by caller, epoch and slot."""

    @property
    def pending(self) -> dict[int, int]:
        """The first value of each pending row."""
        return {key: row[0] for key, row in self.pending_rows.items()}

    @property
    def published(self) -> dict[int, int]:
        """The first value of each published row."""
        return {key: row[0] for key, row in self.published_rows.items()}

    def push(self, key: int, *delta: int) -> None:
        """Add a worker's gradient, a row."""
        self.pending_rows[key] = add(self.pending_rows.get(key, (0,) * len(delta)), delta)

    def answer(self, datagram: bytes) -> bytes | None:
        """Return the answer to an RPC of a privileged caller, None if it is dropped."""
        message = parse(datagram)
        header, keys = message.header, message.keys
        assert keys is not None
        lanes = [lane for lane in range(header.count) if header.live >> lane & 1]
        place = header.worker, header.epoch, header.seq % WINDOW
        turn, served = self.turns.get(place, (0, 0))
        is_new = header.seq >> WINDOW_BITS == turn + 1
        if not is_new and header.seq >> WINDOW_BITS != turn:
            return None
        if is_new or header.op == Op.PULL:
            served = sum(1 << lane for lane in lanes if int(keys[lane]) in self.hot)
        self.turns[place] = header.seq >> WINDOW_BITS, served
        dim = header.dim
        values = [0] * (header.count * dim)
        for lane in lanes:
            key = int(keys[lane])
            if not served >> lane & 1:
                continue
            of_lane = slice(lane * dim, (lane + 1) * dim)
            if header.op == Op.PULL:
                values[of_lane] = self.pending_rows.get(key, (0,) * dim)
            elif is_new:
                assert message.values is not None
                row = tuple(message.values[of_lane].tolist())
                if header.flags & SET:
                    self.published_rows[key] = row
                else:
                    self.push(key, *row)
        return reply(header, values, served=served)
