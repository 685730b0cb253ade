"""Frames that the switch forwards, and frames that it drops."""

from hotline_course.frames import ethernet, mac
from hotline_course.points import points

EMPTY = bytes(46)


def fill(switch, hosts):
    for address, port in hosts.items():
        switch.run(f"table_add hosts forward {mac(address)} => {port}")


@points(2)
def test_a_frame_for_a_known_host_leaves_unchanged_by_the_hosts_port(switch, parameters):
    fill(switch, parameters.hosts)
    for address, port in parameters.hosts.items():
        frame = ethernet(dst=address, payload=EMPTY)
        switch.expect(port % 8 + 1, frame, (port, frame))


def test_only_frames_for_known_hosts_are_forwarded(switch):
    fill(switch, {0x0A: 1})
    known, unknown = (ethernet(dst=address, payload=EMPTY) for address in (0x0A, 0x0B))
    switch.expect(2, unknown)
    switch.expect(2, known, (1, known))


def test_no_frame_leaves_by_the_port_of_its_arrival(switch):
    fill(switch, {0x0A: 1})
    frame = ethernet(dst=0x0A, payload=EMPTY)
    switch.expect(2, frame, (1, frame))
    switch.expect(1, frame)


@points(2)
def test_random_frames_leave_by_the_ports_of_the_plain_model(switch, parameters):
    fill(switch, parameters.hosts)
    for port, dst, data in parameters.frames:
        frame = ethernet(dst=dst, payload=data)
        to = parameters.hosts.get(dst, port)  # the plain model
        switch.expect(port, frame, *([(to, frame)] if to != port else []))
