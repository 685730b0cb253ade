"""Cells of a counter and of a register after updates of several keys."""

from hotline_course.frames import HotFrame, ethernet
from hotline_course.points import points

KEYS = 64


def send(switch, *updates):
    for key, value in updates:
        switch.process(2, HotFrame(key, value).encode())


def expect_equal(name, key, updates, expected, got):
    assert got == expected, f"{name}[{key}], updates sent {updates}: expected {expected}, got {got}"


@points(2)
def test_the_counter_has_the_frames_and_bytes_of_each_key(switch):
    send(switch, (3, 10), (3, 20), (5, 1))
    frame_bytes = len(HotFrame(0, 0).encode())
    for key, frames in ((3, 2), (5, 1), (4, 0)):
        packets, counted_bytes = switch.counter("frames", key)
        expect_equal("frames", key, frames, frames, packets)
        expect_equal("bytes of frames", key, frames, frames * frame_bytes, counted_bytes)


@points(2)
def test_the_register_has_the_largest_value_and_not_the_last(switch):
    send(switch, (3, 10), (3, 2**31), (3, 20), (5, 1))
    for key, updates, largest in ((3, 3, 2**31), (5, 1, 1), (4, 0, 0)):
        expect_equal("largest", key, updates, largest, switch.register("largest", key))


def test_a_frame_without_a_cell_for_its_key_is_dropped_and_not_counted(switch):
    frame = HotFrame(KEYS - 1, 7).encode()
    switch.expect(2, frame, (1, frame))
    switch.expect(2, HotFrame(KEYS, 7).encode())
    switch.expect(2, ethernet(payload=bytes(46)))
    expect_equal("frames", KEYS - 1, 1, 1, switch.counter("frames", KEYS - 1)[0])
    expect_equal("frames", 0, 0, 0, switch.counter("frames", 0)[0])


@points(2)
def test_all_cells_equal_the_plain_model_after_random_updates(switch, parameters):
    send(switch, *parameters.updates)
    for key in range(KEYS):  # the plain model
        values = [value for other, value in parameters.updates if other == key]
        expect_equal("frames", key, len(values), len(values), switch.counter("frames", key)[0])
        expect_equal("largest", key, len(values), max(values, default=0), switch.register("largest", key))
