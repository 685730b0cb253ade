"""Compiled handlers of hosts compared with handlers in Python, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from softswitch.errors import SwitchError
from softswitch.network import Host, Network, add_frame
from switch_harness.wording import mentions

MAX_CALLS = 120
CALLS, ROWS, FIRST_ROW, ROW_WORDS = 0, 1, 2, 3
"""Words of a state: the numbers of calls so far and of rows, and the rows, a `Step` each; the log follows."""
END_NS = 50_000_000


class Step(NamedTuple):
    """What a host does when it is called: how many frames it sends, of which length, and when it wakes."""

    frames: int
    length: int
    wake_after: int  # ns; 0 for never


class Call(NamedTuple):
    time: int
    length: int  # of the frame, 0 without one
    first: int  # octet of the frame


STEPS = st.lists(
    st.builds(Step, st.integers(0, 2), st.integers(14, 60), st.sampled_from([0, 0, 701, 5_003, 90_001])),
    min_size=1,
    max_size=6,
)


def state_of(steps: list[Step]) -> NDArray[np.int64]:
    words = [0, len(steps), *(word for step in steps for word in step)]
    return np.array([*words, *[0] * (3 * MAX_CALLS)], np.int64)


def follow_steps(state: Any, frame: Any, now: int, out: Any) -> int:  # arrays in compiled code
    k, rows = state[CALLS], state[ROWS]
    if k == MAX_CALLS:
        return -1
    log = FIRST_ROW + ROW_WORDS * rows + 3 * k
    state[log], state[log + 1] = now, len(frame)
    state[log + 2] = frame[0] if len(frame) else 0
    state[CALLS] += 1
    step = FIRST_ROW + ROW_WORDS * (k % rows)
    for _ in range(state[step]):
        add_frame(out, np.full(state[step + 1], k, np.uint8))
    wake_after = state[step + 2]
    return now + wake_after if wake_after else -1


def logged(state: NDArray[np.int64]) -> list[Call]:
    log = state[FIRST_ROW + ROW_WORDS * state[ROWS] :].reshape(-1, 3)
    return [Call(*row) for row in log[: state[CALLS]].tolist()]


class PythonHandler:
    """`follow_steps` by the calls of a host in Python."""

    def __init__(self, net: Network, host: Host, steps: list[Step]) -> None:
        self.calls: list[Call] = []
        self._net, self._host, self._steps = net, host, steps
        self._timer: asyncio.TimerHandle | None = None
        host.on_frame(self._call)
        net.call_at(0, self._call, b"")

    def _call(self, frame: bytes) -> None:
        k = len(self.calls)
        if self._timer is not None:
            self._timer.cancel()
        if k == MAX_CALLS:
            return
        self.calls.append(Call(self._net.now_ns(), len(frame), frame[0] if frame else 0))
        step = self._steps[k % len(self._steps)]
        for _ in range(step.frames):
            self._net.transmit(self._host.number, bytes([k]) * step.length)
        if step.wake_after:
            at_us = (self._net.now_ns() + step.wake_after) / 1000
            self._timer = self._net.call_at(at_us, self._call, b"")


def calls_of_hosts(
    steps: tuple[list[Step], list[Step]], options: dict[str, Any], is_compiled: bool
) -> list[list[Call]]:
    with Network(seed=3) as net:
        hosts = [net.add_host(name, f"10.0.0.{n}/24") for n, name in enumerate("ab", start=1)]
        net.add_link(*hosts, **options)
        if is_compiled:
            states = [state_of(each) for each in steps]
            for host, state in zip(hosts, states, strict=True):
                host.run_compiled(follow_steps, state)
            net.run(until_s=END_NS / 1e9)
            return list(map(logged, states))
        handlers = [PythonHandler(net, host, each) for host, each in zip(hosts, steps, strict=True)]
        net.run(until_s=END_NS / 1e9)
        return [handler.calls for handler in handlers]


def have_equal_times(calls: list[list[Call]]) -> bool:
    """Return whether a host wakes when anything else happens, the order of which is not specified."""
    later = [call for each in calls for call in each if call.time]
    wakes = [call.time for call in later if not call.length]
    return len(set(wakes)) < len(wakes) or any(call.length and call.time in wakes for call in later)


@settings(max_examples=40)
@given(
    steps=st.tuples(STEPS, STEPS),
    delay_us=st.sampled_from([0.3, 7.0, 41.0]),
    link=st.sampled_from([{"mbit": None}, {"mbit": 11.0}, {"loss": 0.2}]),
)
def test_compiled_handlers_are_called_at_the_times_and_with_the_frames_of_python_handlers(
    steps: tuple[list[Step], list[Step]], delay_us: float, link: dict[str, Any]
) -> None:
    options = {"delay_us": delay_us, **link}
    expected = calls_of_hosts(steps, options, is_compiled=False)
    assume(not have_equal_times(expected))
    # The call after a host's last one is in no log, and may have its time.
    compared = slice(MAX_CALLS - 1)
    found = calls_of_hosts(steps, options, is_compiled=True)
    assert [calls[compared] for calls in found] == [calls[compared] for calls in expected]


def echo(state: Any, frame: Any, now: int, out: Any) -> int:  # arrays in compiled code
    """Answer each frame, and postpone a time-out, which nothing waits for."""
    state["frames"][0] += 1
    if len(frame):
        add_frame(out, frame)
    return now + 10**12


def begin(state: Any, frame: Any, now: int, out: Any) -> int:  # as above
    """Send a frame, and each answer again."""
    state[0] += 1
    add_frame(out, frame if len(frame) else np.ones(60, np.uint8))
    return -1


def test_a_handler_with_a_postponed_time_out_keeps_one_event() -> None:
    received = np.zeros(1, [("frames", np.int64)])
    sent = np.zeros(1, np.int64)
    with Network() as net:
        a, b = net.add_host("a", "10.0.0.1/24"), net.add_host("b", "10.0.0.2/24")
        net.add_link(a, b, delay_us=10)
        b.run_compiled(echo, received)
        a.run_compiled(begin, sent, at_us=5)
        net.run(until_s=0.2)
        # The first frame is sent at 5 µs, and one arrives at b each 20 µs from 15 µs on.
        assert received["frames"][0] == 1 + 10_000
        assert sent[0] == 1 + 9_999
        assert net.network_state().header.events <= 3


SENDS, RAISES, FILLS = range(3)
"""What `misbehave` does, by the first word of its state; the second is the length of a frame, or a count."""


def misbehave(state: Any, frame: Any, now: int, out: Any) -> int:  # as above
    if state[0] == RAISES:
        raise ValueError("expected another state")
    if state[0] == SENDS:
        add_frame(out, np.zeros(state[1], np.uint8))
    while state[0] == FILLS and add_frame(out, np.zeros(1000, np.uint8)):
        state[1] += 1
    return -1


def answer_text(state: Any, frame: Any, now: int, out: Any) -> Any:  # as above
    return "later"


@pytest.mark.parametrize(
    "handler, state, message",
    [
        (misbehave, np.array([SENDS, 2000]), ("host a", "2000", "1536")),
        (misbehave, np.array([SENDS, 0]), ("host a", "0 bytes")),
        (misbehave, np.array([RAISES, 0]), ("host a", "exception")),
        (answer_text, np.array([1]), ("answer_text", "integer")),
        (misbehave, np.zeros((4, 4))[:, 1], ("misbehave", "contiguous")),
        (misbehave, np.zeros((4, 4)), ("misbehave", "one dimension")),
        (misbehave, [1], ("misbehave", "numpy array")),
        (misbehave, np.array(["x"], object), ("misbehave", "numbers")),
    ],
)
def test_a_failing_handler_ends_the_run_with_the_name_of_the_host_or_of_the_handler(
    handler: Callable[..., Any], state: Any, message: tuple[str, ...]
) -> None:
    with Network() as net:
        a, b = net.add_host("a", "10.0.0.1/24"), net.add_host("b", "10.0.0.2/24")
        net.add_link(a, b)
        with pytest.raises(SwitchError, match=mentions(*message)):
            a.run_compiled(handler, state)
            net.run(until_s=1)


def test_a_full_output_takes_no_more_frames() -> None:
    state = np.array([FILLS, 0])
    with Network() as net:
        a, b = net.add_host("a", "10.0.0.1/24"), net.add_host("b", "10.0.0.2/24")
        link = net.add_link(a, b)
        a.run_compiled(misbehave, state)
        net.run(until_s=1)
        assert link.counters("a").sent == state[1] > 0
