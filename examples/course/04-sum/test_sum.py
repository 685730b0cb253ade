"""Sums that the switch makes of updates, and the frames that it sends."""

from hotline_course.frames import RESULT, HotFrame
from hotline_course.points import points

LAST_KEY = 15


def connect(switch, workers):
    """Worker w is at port w + 1."""
    ports = [worker + 1 for worker in range(workers)]
    switch.run(
        f"register_write workers 0 {workers}",
        "mc_mgrp_create 1",
        f"mc_node_create 0 {' '.join(map(str, ports))}",
        "mc_node_associate 1 0",
    )
    return ports


def update(switch, worker, key, value, *outputs):
    switch.expect(worker + 1, HotFrame(key, value, worker).encode(), *outputs)


def result(ports, worker, key, value):
    frame = HotFrame(key, value % 2**32, worker, op=RESULT).encode()
    return [(port, frame) for port in ports]


@points(2)
def test_the_last_update_returns_the_sum_to_all_workers(switch):
    ports = connect(switch, 3)
    update(switch, 0, 5, 10)
    update(switch, 1, 5, 20)
    update(switch, 2, 5, 30, *result(ports, 2, 5, 60))


def test_keys_have_separate_sums(switch):
    ports = connect(switch, 2)
    update(switch, 0, 1, 10)
    update(switch, 0, LAST_KEY, 5)
    update(switch, 1, LAST_KEY, 6, *result(ports, 1, LAST_KEY, 11))
    update(switch, 1, 1, 20, *result(ports, 1, 1, 30))


def test_a_sum_begins_at_zero_after_a_result(switch):
    ports = connect(switch, 2)
    for value in (1, 100):
        update(switch, 0, 3, value)
        update(switch, 1, 3, value, *result(ports, 1, 3, 2 * value))


@points(2)
def test_random_updates_have_the_sums_of_the_plain_model(switch, parameters):
    ports = connect(switch, parameters.workers)
    sums, counts = {}, {}
    for worker, key, value in parameters.updates:
        # The plain model.
        sums[key] = sums.get(key, 0) + value
        counts[key] = counts.get(key, 0) + 1
        if counts[key] == parameters.workers:
            update(switch, worker, key, value, *result(ports, worker, key, sums.pop(key)))
            counts[key] = 0
        else:
            update(switch, worker, key, value)
