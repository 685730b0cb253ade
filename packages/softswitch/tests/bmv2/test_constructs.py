"""BMv2 gives what softswitch gives on programs that cover each construct, for random packets and state.

Both get the same P4Runtime writes and the same frames, in lockstep; softswitch is its P4Runtime server on
compiled code. Compared: whether a write is done, ports, bytes and order per port, afterwards counters, and
registers by frames that bring them back. What is not compared, or not drawn:

- random numbers;
- assertions that fail, which end BMv2, and packets for a group without members, behind which it hangs;
- order on a port to which several egress threads of BMv2 send: where egress clones or recirculates the copies
  of a multicast. Register `lengths` of `resubmit_recirculate`, which such threads write, is not read either;
- rates of meters, as BMv2 has a clock of its own: buckets never fill, or are full at once (`timeless`);
- value sets, registers and clone sessions that truncate: BMv2's P4Runtime server refuses to write them;
- groups with members that are not there: PI refuses them and has made half of them;
- entries that a full table with an action profile refuses: BMv2 takes their members to be in use for ever;
- one-shots of more members than their profile has room for, which PI does not mind;
- the codes of refusals, of which many are UNKNOWN in BMv2, and the unit that a counter does not count, which
  PI reads but does not write.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import replace
from random import Random
from typing import cast

import pytest

from softswitch.pipeline import LogRecord, Output, Pipeline
from switch_harness import PROGRAMS
from switch_harness.constructs import CONSTRUCTS, Construct, no_state
from switch_harness.p4rt_drawer import P4RuntimeDrawer
from switch_harness.twins import Twins, twins

pytestmark = pytest.mark.bmv2

VECTORS = int(os.environ.get("HOTLINE_VECTORS", "400"))
SEED = int(os.environ.get("HOTLINE_SEED", "2020"))
Outputs = dict[int, list[bytes]]


def races(name: str, frame: bytes) -> bool:
    """Whether several egress threads may send to one port because of this frame."""
    if name == "replication":
        return bool(frame[0] & 2 and frame[0] & 8)
    if name == "resubmit_recirculate":
        op, laps = frame[2:4] if frame[0] & 0xF0 == 0xF0 else frame[:2]
        return bool(op & 2 and laps & 0xF)
    if name == "traffic":
        return bool(frame[2] and frame[0] & 0x23 and frame[1] & 0x23)
    return False


def comparable(name: str, frame: bytes, outputs: list[Output]) -> Outputs:
    """The frames that leave each port, in order where there is one, without random numbers."""
    ports: Outputs = defaultdict(list)
    for port, data in outputs:
        is_random = name == "digests_logs" and frame[0] & 8
        ports[port].append(data[:6] + data[8:] if is_random else data)
    if races(name, frame):
        return {port: sorted(sent) for port, sent in ports.items()}
    return dict(ports)


def exchange(both: Twins, name: str, port: int, frame: bytes, what: object) -> None:
    """Send a frame through both, unless it ends BMv2."""
    ours, notices = both.expect(port, frame)
    if any(isinstance(notice, LogRecord) and "failed" in notice.text for notice in notices):
        return
    reference = both.observe(port, frame)
    assert comparable(name, frame, ours) == comparable(name, frame, reference), (
        f"{name}, {what}: into port {port}: {frame.hex()}"
    )


def run(construct: Construct, one_shots: bool = False) -> None:
    random = Random(SEED)
    with twins(PROGRAMS / construct.name) as both:
        construct.prepare(cast(Pipeline, both.write))  # the writes that it makes, as messages
        drawer = P4RuntimeDrawer(both.pipeline, random, one_shots)
        for number in range(VECTORS):
            if drawer.kinds and random.random() < 0.2:
                drawer.draw()(cast(Pipeline, both.write))
            port, frame = construct.frame(random)
            if len(frame) > 3:
                exchange(both, construct.name, port, frame, f"vector {number}")
        for frame in construct.pulls:
            exchange(both, construct.name, 1, frame, "pull")
        ours, reference = both.counters()
        assert ours == reference


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_bmv2_sends_the_same_frames_as_softswitch_for_each_construct(name: str) -> None:
    run(replace(CONSTRUCTS[name], prepare=no_state) if name == "value_sets" else CONSTRUCTS[name])


def test_bmv2_agrees_on_one_shots() -> None:
    run(replace(CONSTRUCTS["profiles"], prepare=no_state), one_shots=True)
