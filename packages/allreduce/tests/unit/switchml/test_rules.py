"""SwitchML's published rules as a plain model."""

from __future__ import annotations

import pytest

from hotline_allreduce.switchml.model.rules import SwitchAnswer, SwitchMLSwitchModel, SwitchMLWindowModel
from hotline_allreduce.switchml.packet import VALUES, SwitchMLPacket
from switch_harness.wording import mentions


def packet(value: int, set_: int = 0, chunk: int = 0) -> SwitchMLPacket:
    return SwitchMLPacket(chunk, 0, set_, (value,) * VALUES)


def value_of(answer: SwitchAnswer | None) -> tuple[bool, int]:
    assert answer is not None
    return answer.is_multicast, answer.packet.values[0]


def test_a_slot_is_added_up_once_and_begins_anew() -> None:
    switch = SwitchMLSwitchModel(3, 1)
    assert [switch.take(worker, packet(10**worker)) for worker in (0, 1, 1)] == [None] * 3
    assert value_of(switch.take(2, packet(100))) == (True, 111)
    assert value_of(switch.take(1, packet(10))) == (False, 111)
    for worker in range(3):
        switch.take(worker, packet(1, set_=1))
    assert switch.take(0, packet(5)) is None  # the first of the next turn: it writes
    assert switch.sets[0][0].values[0] == 5


def test_short_vectors_of_floats_can_stall_by_a_single_loss() -> None:
    """With 2 chunks in a window of 3, the result of packet 1 releases packet 3, which has packet 0's slot.

    So A comes to the other set while it still waits for the result of packet 0, and its bit is cleared.
    """
    switch = SwitchMLSwitchModel(2, 3)
    windows = [SwitchMLWindowModel(0, total=4, window=3, batch=2) for _ in range(2)]

    def send(worker: int, number: int) -> SwitchAnswer | None:
        slot, set_ = windows[worker].slot_and_set(number)
        return switch.take(worker, SwitchMLPacket(number, slot, set_))

    assert windows[0].slot_and_set(0) == (0, 0) and windows[0].slot_and_set(3) == (0, 1)
    for number in range(2):
        assert send(0, number) is None
        answer = send(1, number)
        assert answer is not None and answer.is_multicast
        windows[0].take(answer.packet) if number else None  # A does not get the first
    assert windows[0].outstanding == {0, 3}
    assert send(0, 3) is None
    assert [send(0, 0) for _ in range(3)] == [None] * 3  # it waits for ever: its packet counts as a new turn
    assert switch.sets[0][0].missing_workers == 1


def test_a_worker_that_misses_the_slot_timeout_is_left_out_of_every_workers_sum() -> None:
    switch = SwitchMLSwitchModel(3, 1, check=True, slot_timeout_us=100)
    switch.take(0, packet(1), 0)
    switch.take(1, packet(10), 50)
    assert switch.take(0, packet(1), 99) is None
    answer = switch.take(0, packet(1), 100)
    assert value_of(answer) == (True, 11)
    assert answer is not None and answer.packet.exponents == (0, 1)  # one is missing
    late = switch.take(2, packet(100), 120)
    assert late == answer._replace(is_multicast=False)
    # It has its part in the next chunk, if it comes in time.
    assert [switch.take(worker, packet(10**worker, 1, 1), 130) for worker in (0, 1)] == [None, None]
    assert value_of(switch.take(2, packet(100, 1, 1), 140)) == (True, 111)
    assert switch.take(2, packet(100), 150) == late


def test_the_slot_timeout_needs_the_check() -> None:
    with pytest.raises(ValueError, match=mentions("slot_timeout_us", 5)):
        SwitchMLSwitchModel(2, 1, slot_timeout_us=5)


def test_a_window_moves_on_after_each_received_packet() -> None:
    window = SwitchMLWindowModel(first=5, total=3, window=2, base=64)
    assert [window.slot_and_set(number) for number in range(3)] == [(65, 0), (64, 1), (65, 1)]
    assert not window.take(SwitchMLPacket(7, 64, 1))  # not sent yet
    assert window.take(SwitchMLPacket(5, 65, 0)) and not window.take(SwitchMLPacket(5, 65, 0))
    assert window.outstanding == {1, 2} and not window.is_done
