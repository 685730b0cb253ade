"""Sums over the workers of two racks, of which each has a switch."""

from collections import Counter

from hotline_course.frames import RESULT, UPDATE, HotFrame, decode
from hotline_course.points import points

MAX_HOPS = 4


class Network:
    """Two switches with a link: frames that leave by it enter the other one at once."""

    def __init__(self, make_switch, module, descriptions):
        self.switches = [make_switch(), make_switch()]
        self.link = [descriptions[0]["down_port"], descriptions[1]["up_port"]]
        self.upward = 0
        for switch, description in zip(self.switches, descriptions, strict=True):
            switch.run(*module.call("commands", description))

    def send(self, number, port, frame):
        """Return switch, port and header of each frame that reaches a worker."""
        ahead, arrived = [(number, port, frame, 0)], []
        while ahead:
            at, entry, data, hops = ahead.pop()
            assert hops <= MAX_HOPS, f"a frame went over the link {MAX_HOPS} times: is a result sent back?"
            for out, made in self.switches[at].process(entry, data):
                if out == self.link[at]:
                    self.upward += at == 1
                    ahead.append((1 - at, self.link[1 - at], made, hops + 1))
                else:
                    arrived.append((at, out, decode(made)))
        return arrived


def test_the_switch_below_sends_one_update_up_and_no_result_down(make_switch, module):
    switch = make_switch()
    switch.run(*module.call("commands", {"worker_ports": [1, 2], "up_port": 9, "down_port": 0}))
    switch.expect(1, HotFrame(3, 10).encode())
    switch.expect(2, HotFrame(3, 20).encode(), (9, HotFrame(3, 30).encode()))


def test_the_switch_below_takes_results_from_its_uplink_alone(make_switch, module):
    switch = make_switch()
    switch.run(*module.call("commands", {"worker_ports": [1, 2], "up_port": 9, "down_port": 0}))
    frame = HotFrame(3, 99, op=RESULT).encode()
    switch.expect(9, frame, (1, frame), (2, frame))
    switch.expect(1, frame)


def test_the_switch_above_waits_for_the_switch_below(make_switch, module):
    switch = make_switch()
    switch.run(*module.call("commands", {"worker_ports": [1], "up_port": 0, "down_port": 4}))
    switch.expect(1, HotFrame(3, 10).encode())
    frame = HotFrame(3, 60, op=RESULT).encode()
    switch.expect(4, HotFrame(3, 50).encode(), (1, frame), (4, frame))


@points(3)
def test_all_workers_of_both_racks_get_the_sums_of_the_plain_model(make_switch, module, parameters):
    network = Network(make_switch, module, parameters.switches)
    workers = {
        (number, port) for number, rack in enumerate(parameters.switches) for port in rack["worker_ports"]
    }
    sums, counts = Counter(), Counter()
    for number, port, key, value in parameters.updates:
        arrived = network.send(number, port, HotFrame(key, value, op=UPDATE).encode())
        sums[key] += value  # the plain model
        counts[key] += 1
        is_last = counts[key] % len(workers) == 0
        expected = {(*worker, sums[key] % 2**32) for worker in workers} if is_last else set()
        got = {(at, out, header.value) for at, out, header in arrived if header.op == RESULT}
        assert got == expected and len(arrived) == len(expected), (
            f"key {key}, update {counts[key]} of {len(workers)} workers: expected (switch, port, sum) "
            f"{sorted(expected)}, got {sorted(got)}"
        )
        if is_last:
            del sums[key]


def test_the_link_carries_one_update_for_each_sum(make_switch, module, parameters):
    network = Network(make_switch, module, parameters.switches)
    for number, port, key, value in parameters.updates:
        network.send(number, port, HotFrame(key, value).encode())
    below = [update for update in parameters.updates if update.switch == 1]
    expected = len(below) // len(parameters.switches[1]["worker_ports"])
    assert network.upward == expected, f"expected {expected} updates on the link, got {network.upward}"
