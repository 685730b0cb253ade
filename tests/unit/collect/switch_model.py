"""A plain model of design `collect`'s switch: published copies, pending sums, and exactly-once turns."""

from __future__ import annotations

from dataclasses import dataclass, field

from foundation.protocol.codec import parse
from foundation.protocol.header import SET, WINDOW, WINDOW_BITS, Op
from tests.harness.wire import MODULUS, reply


@dataclass
class SwitchModel:
    hot: set[int] = field(default_factory=set)
    """Keys with an entry."""
    pending: dict[int, int] = field(default_factory=dict)
    published: dict[int, int] = field(default_factory=dict)
    turns: dict[tuple[int, int, int], tuple[int, int]] = field(default_factory=dict)
    """Turn and served lanes of the last RPC, by caller, epoch and slot."""

    def push(self, key: int, delta: int) -> None:
        """Add a worker's gradient."""
        self.pending[key] = (self.pending.get(key, 0) + delta) % MODULUS

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
        values = [0] * header.count
        for lane in lanes:
            key = int(keys[lane])
            if not served >> lane & 1:
                continue
            if header.op == Op.PULL:
                values[lane] = self.pending.get(key, 0)
            elif is_new:
                assert message.values is not None
                value = int(message.values[lane])
                if header.flags & SET:
                    self.published[key] = value
                else:
                    self.push(key, value)
        return reply(header, values, served=served)
