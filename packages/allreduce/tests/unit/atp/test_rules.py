"""ATP's published rules as plain models."""

from __future__ import annotations

import numpy as np
import pytest

from hotline_allreduce.atp.model.rules import (
    MASK,
    SIGN_BIT,
    AtpSwitchModel,
    AtpWindowModel,
    Output,
    ServerModel,
    add,
    next_window,
)
from hotline_allreduce.atp.packet import ACK, CELLS, COLLISION, ECN, OVERFLOW, RESEND, VALUES, AtpPacket
from hotline_allreduce.atp.worker import cells_of
from switch_harness.wording import mentions

NEGATIVE = MASK  # -1


def packet(
    worker: int, value: int, *, sequence: int = 1, flags: int = 0, app: int = 1, key: int = 1,
    workers: int = 2, cell: int = 0, length: int = 2 * VALUES,
) -> AtpPacket:  # fmt: skip
    values = (value,) * VALUES
    return AtpPacket(1 << worker, workers, app, sequence, cell, values, key, length, flags)


def to_server(output: Output | None) -> tuple[int, int, int]:
    """Return bitmap, flags and value of what goes to the server."""
    assert output is not None and not output.is_multicast
    return output.packet.bitmap, output.packet.flags, output.packet.values[0]


def test_a_cell_adds_up_once_and_is_freed_by_the_acknowledgement() -> None:
    switch = AtpSwitchModel(1)
    assert switch.take(packet(0, 5)) is None and switch.take(packet(0, 5)) is None
    assert to_server(switch.take(packet(1, 7))) == (0b11, 0, 12)
    assert to_server(switch.take(packet(0, 5))) == (0b11, 0, 12)  # complete: answered again
    assert switch.memory[0].owner == 1 << 16 | 1
    answer = switch.take(packet(0, 12, flags=ACK))
    assert answer is not None and answer.is_multicast and switch.memory[0].owner == 0
    assert switch.take(packet(0, 3, sequence=2)) is None and switch.memory[0].values[0] == 3


def test_a_taken_cell_passes_packets_on_and_an_acknowledgement_frees_only_its_own_cell() -> None:
    switch = AtpSwitchModel(1)
    switch.take(packet(0, 5))
    for other in (packet(1, 7, sequence=2), packet(1, 7, app=2)):
        assert to_server(switch.take(other)) == (0b10, COLLISION, 7)
        assert to_server(switch.take(other._replace(flags=RESEND))) == (0b10, RESEND, 7)
        switch.take(other._replace(flags=ACK))
        assert switch.memory[0].owner == 1 << 16 | 1
    switch.take(packet(0, 5, flags=ACK | OVERFLOW))  # a request for floats
    assert switch.memory[0].owner
    switch.take(packet(0, 5, flags=ACK | OVERFLOW | RESEND))  # floats
    assert not switch.memory[0].owner


def test_a_resent_packet_takes_the_partial_sum_along() -> None:
    switch = AtpSwitchModel(1)
    switch.take(packet(0, 5, workers=3))
    assert to_server(switch.take(packet(1, 7, workers=3, flags=RESEND))) == (0b11, RESEND, 12)
    assert (switch.memory[0].owner, switch.memory[0].bitmap, switch.memory[0].count) == (0, 0, 0)
    assert to_server(switch.take(packet(0, 5, workers=3, flags=RESEND))) == (0b1, RESEND, 5)  # does not claim
    switch.take(packet(0, 5, workers=3))
    assert to_server(switch.take(packet(0, 5, workers=3, flags=RESEND))) == (0b1, RESEND, 5)


def test_congestion_is_remembered_until_the_acknowledgement() -> None:
    switch = AtpSwitchModel(1)
    switch.take(packet(0, 1, workers=3), is_marked=True)
    switch.take(packet(1, 1, workers=3))
    assert to_server(switch.take(packet(2, 1, workers=3)))[1] == ECN
    switch.take(packet(0, 1, flags=ACK))
    switch.take(packet(0, 1))
    assert to_server(switch.take(packet(1, 1)))[1] == 0


@pytest.mark.parametrize(
    ("held", "value", "total"),
    [
        (1, NEGATIVE, 0),
        (SIGN_BIT - 2, 1, SIGN_BIT - 1),
        (SIGN_BIT - 2, 9, SIGN_BIT - 1),
        (SIGN_BIT - 1, NEGATIVE, SIGN_BIT - 1),  # an end is not left
        (SIGN_BIT + 2, NEGATIVE, SIGN_BIT + 1),
        (SIGN_BIT + 1, 5, SIGN_BIT + 1),
        (SIGN_BIT, 5, SIGN_BIT),
        (SIGN_BIT + 5, SIGN_BIT + 5, SIGN_BIT),
    ],
)
def test_sums_stop_at_the_ends(held: int, value: int, total: int) -> None:
    assert add(held, value) == total


def test_a_server_adds_up_partial_sums_and_names_another_cell() -> None:
    server = ServerModel(spare_cells=(3, 0, 8))
    assert server.take(packet(0, 5, cell=3, flags=COLLISION)) is None
    assert server.take(packet(0, 5, cell=3, flags=RESEND)) is None  # counted once
    answer = server.take(packet(1, 7, cell=3, flags=COLLISION))
    assert answer is not None and answer.has(ACK) and answer.has(COLLISION)
    assert (answer.values[0], answer.length) == (12, 0)  # 3 is in use
    again = server.take(packet(1, 7, cell=3, flags=RESEND))
    assert again is not None and (again.values[0], again.length) == (12, 0)


def test_a_partial_sum_with_a_counted_bit_is_ignored() -> None:
    server = ServerModel()
    assert server.take(packet(0, 5, workers=3)) is None
    assert server.take(packet(0, 12, workers=3)._replace(bitmap=0b11)) is None
    assert server.take(packet(1, 7, workers=3)) is None
    answer = server.take(packet(2, 9, workers=3))
    assert answer is not None and answer.values[0] == 21


def word(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def test_a_sum_at_an_end_has_all_workers_send_floats() -> None:
    server = ServerModel()
    asked = server.take(packet(1, SIGN_BIT - 1)._replace(bitmap=0b11))
    assert asked is not None and asked.flags == ACK | OVERFLOW
    window = AtpWindowModel(1, 2, [0, 1])
    assert window.take(asked) == [] and window.floats == {1} and not window.results
    assert server.take(packet(0, word(1.5), flags=OVERFLOW | RESEND)) is None
    late = server.take(packet(1, 7, flags=RESEND))  # sent before the request came
    assert late is not None and late.flags == ACK | OVERFLOW
    answer = server.take(packet(1, word(-0.25), flags=OVERFLOW | RESEND))
    assert answer is not None and answer.values[0] == word(1.25)
    window.take(answer)
    assert window.results[1] == answer.values


def test_a_window_moves_on_and_resends_gaps_once() -> None:
    window = AtpWindowModel(1, 6, [0, 1, 2])
    assert window.send() == [1, 2, 3]
    assert window.take(packet(0, 0, sequence=3)) == [1, 2] and window.send() == []
    assert window.take(packet(0, 0, sequence=2)) == []
    assert window.take(packet(0, 0, sequence=2, key=7)) == []
    assert window.take(packet(0, 0, flags=COLLISION, length=9)) == [] and window.last_in_order == 3
    assert window.send() == [4, 5, 6] and window.cell(4) == 9


def test_a_window_is_halved_by_congestion() -> None:
    assert [next_window(limit, True, 64) for limit in (40, 1)] == [20, 1]
    assert [next_window(limit, False, 64) for limit in (40, 62)] == [44, 64]
    window = AtpWindowModel(1, 9, [0, 1, 2, 3], is_adaptive=True)
    for sequence in range(1, 5):
        window.take(packet(0, 0, sequence=sequence, flags=ECN * (sequence == 4)))
    assert window.window == 2 and window.end_of_window == 6


def test_cells_are_chosen_by_the_published_hash() -> None:
    """Computed with a bit by bit CRC."""

    def crc(octets: bytes) -> int:
        register = MASK
        for octet in octets:
            register ^= octet
            for _ in range(8):
                register = register >> 1 ^ (0xEDB88320 if register & 1 else 0)
        return ~register & 0xFFFF

    assert cells_of(3, 2).tolist() == [crc(bytes([3, 0, place, 0, 0, 0])) % CELLS for place in range(2)]
    few = cells_of(1, 16, cells=16)
    assert sorted(few.tolist()) == list(range(16))
    with pytest.raises(ValueError, match=mentions(4, 5)):
        cells_of(1, 5, cells=4)
