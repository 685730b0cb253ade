"""Sums over a network that loses frames: workers send their update until they have the result."""

from hotline_course.frames import RESULT, HotFrame, decode
from hotline_course.points import points

MAX_STEPS = 400
"""Attempts of each worker until all rounds must have ended."""


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


def update(switch, worker, value, *outputs, version=0, key=2):
    switch.expect(worker + 1, HotFrame(key, value, worker, version).encode(), *outputs)


def result(ports, worker, value, version=0, key=2):
    frame = HotFrame(key, value, worker, version, RESULT).encode()
    return [(port, frame) for port in ports]


def test_without_loss_all_workers_get_the_sum_of_each_version(switch):
    ports = connect(switch, 2)
    for version in (0, 1, 0, 1):
        update(switch, 0, 10 + version, version=version)
        update(switch, 1, 20, *result(ports, 1, 30 + version, version), version=version)


@points(2)
def test_a_repeated_update_is_added_once(switch):
    ports = connect(switch, 3)
    update(switch, 0, 10)
    update(switch, 0, 10)
    update(switch, 1, 20)
    update(switch, 2, 30, *result(ports, 2, 60))


@points(2)
def test_a_lost_result_is_returned_to_the_asking_worker_alone(switch):
    ports = connect(switch, 2)
    update(switch, 0, 10)
    update(switch, 1, 20, *result(ports, 1, 30))
    update(switch, 0, 10, *result([1], 0, 30))
    # Worker 1 has the result and goes on; worker 0 has lost it a second time.
    update(switch, 1, 7, version=1)
    update(switch, 0, 10, *result([1], 0, 30))
    update(switch, 0, 5, *result(ports, 0, 12, 1), version=1)


@points(3)
def test_all_sums_under_random_loss_equal_the_plain_model(switch, parameters):
    connect(switch, parameters.workers)
    for key in range(len(parameters.values[0])):
        run_rounds(switch, parameters, key)


def run_rounds(switch, parameters, key):
    """Run a key's rounds: in each step, every worker without the result of its round sends its update."""
    values = [of_worker[key] for of_worker in parameters.values]
    sums = [sum(of_round) % 2**32 for of_round in zip(*values, strict=True)]  # the plain model
    rounds = [0] * parameters.workers

    def is_lost():
        return parameters.random.random() < parameters.loss

    for _ in range(MAX_STEPS):
        for worker in range(parameters.workers):
            now = rounds[worker]
            if now == len(sums) or is_lost():
                continue
            frame = HotFrame(key, values[worker][now], worker, now % 2).encode()
            for port, out in switch.process(worker + 1, frame):
                if not is_lost():
                    take(rounds, port - 1, decode(out), sums)
        if min(rounds) == len(sums):
            return
    missing = min(rounds)
    raise AssertionError(f"key {key}: round {missing} had no result at a worker after {MAX_STEPS} attempts")


def take(rounds, worker, answer, sums):
    assert 0 <= worker < len(rounds), f"a frame left by port {worker + 1}, where no worker is"
    now = rounds[worker]
    if answer.op == RESULT and now < len(sums) and answer.version == now % 2:
        got = answer.value
        assert got == sums[now], f"worker {worker}, round {now}: expected the sum {sums[now]}, got {got}"
        rounds[worker] += 1
