"""Networks in compiled code compared with a plain model and the interpreter: every frame, at every time."""

from __future__ import annotations

from functools import cache, partial

from hypothesis import given, settings
from hypothesis import strategies as st

from softswitch import ir
from softswitch.interpreter import InterpretedPipeline
from softswitch.load import load_program
from softswitch.network import Network
from softswitch.network.link import LinkOptions
from switch_harness import PROGRAMS, ecn
from switch_harness.plain_network import Delivery, PlainEnd, PlainNetwork

ECN = PROGRAMS / "ecn.json"
HOSTS, LAST_TIME_NS = ("a", "b"), 400_000

LINKS = st.builds(
    LinkOptions,
    mbit=st.sampled_from([None, 3.0, 10.0, 97.0]),
    delay_us=st.sampled_from([0.0, 0.7, 13.0]),
    queue_frames=st.integers(1, 6),
)
SENDINGS = st.lists(
    st.tuples(
        st.integers(0, LAST_TIME_NS),
        st.sampled_from(HOSTS),
        st.builds(ecn.frame, st.integers(0, 999), body=st.integers(0, 300)),
    ),
    min_size=1,
    max_size=40,
)
"""Time in ns, host and frame."""


@cache
def program() -> ir.Program:
    return load_program(ECN.read_bytes())


@settings(max_examples=25)
@given(
    links=st.lists(LINKS, min_size=2, max_size=5),
    sent=SENDINGS,
    copied=st.booleans(),
    threshold=st.integers(1, 4),
)
def test_a_line_of_switches_delivers_the_frames_and_queueing_metadata_of_the_plain_model(
    links: list[LinkOptions], sent: list[tuple[int, str, bytes]], copied: bool, threshold: int
) -> None:
    # Host a, switches s0, s1, ..., host b; a switch sends what it gets at one port out of the other one.
    received: list[Delivery] = []

    def record(host: str, frame: bytes) -> None:
        received.append(Delivery(net.now_ns(), host, frame))

    switches = [f"s{k}" for k in range(len(links) - 1)]
    interpreted = {name: InterpretedPipeline(program()) for name in switches}
    with Network() as net:
        nodes = ["a", *switches, "b"]
        for number, host in enumerate(HOSTS, start=1):
            net.add_host(host, f"10.0.0.{number}/24")
        for name in switches:
            compiled = net.add_switch(name, ECN).pipeline
            for pipeline in (interpreted[name], compiled):
                ecn.forward(pipeline, 1, 2)
                if copied and name == switches[0]:
                    ecn.copy(pipeline, 2, 1, 2)
                else:
                    ecn.forward(pipeline, 2, 1)
                ecn.mark_from(pipeline, 1, threshold)
                ecn.mark_from(pipeline, 2, threshold)
        ends = []
        for first, second, options in zip(nodes, nodes[1:], links, strict=False):
            net.add_link(
                first, second, mbit=options.mbit, delay_us=options.delay_us,
                queue_frames=options.queue_frames,
                ports=(2 if first in switches else None, 1 if second in switches else None),
            )  # fmt: skip
            ends.append(
                (
                    PlainEnd(first, 2 if first in switches else 0),
                    PlainEnd(second, 1 if second in switches else 0),
                    options,
                )
            )
        for node in net.hosts:
            node.on_frame(partial(record, node.name))
        for time, name, frame in sorted(sent, key=lambda each: each[0]):
            net.host(name).send(frame, at_us=time / 1000)
        net.run()
        plain = PlainNetwork(ends, interpreted)
        assert received == plain.run(sent)
        counters = [link.counters(end.node) for link in net.links for end in link.ends]
        assert sum(each.dropped for each in counters) == plain.dropped
        for each in counters:
            assert each.offered == each.sent + each.queued + each.dropped
            assert each.sent == each.delivered and each.queued == 0


def test_drawn_networks_drop_frames_and_mark_packets() -> None:
    # What the test above compares occurs: full queues, and marks because of waiting packets.
    with Network() as net:
        net.add_host("a", "10.0.0.1/24")
        b = net.add_host("b", "10.0.0.2/24")
        switch = net.add_switch("s", ECN)
        ecn.forward(switch.pipeline, 1, 2)
        ecn.mark_from(switch.pipeline, 2, 1)
        net.add_link("a", "s")
        link = net.add_link("s", "b", mbit=10, queue_frames=3)
        received: list[bytes] = []
        b.on_frame(received.append)
        net.host("a").send([ecn.frame(number) for number in range(10)])
        net.run()
        # One frame is on the wire, and three wait.
        assert [ecn.read(frame).number for frame in received] == [0, 1, 2, 3]
        assert [ecn.read(frame).enq_qdepth for frame in received] == [0, 0, 1, 2]
        assert [ecn.is_marked(frame) for frame in received] == [False, False, True, True]
        assert link.counters("s").dropped == 6
