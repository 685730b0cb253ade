"""The workers and servers of a run or session: a file of their processes, and what they do.

The file has a line of JSON for each start of a process, by which commands in other terminals find it. They
read what the kernel counts for the process and for its interface, so that neither the switch nor the process
does anything for that.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from softswitch.progress import ENDED, Activity, ProcessState, read_activity, start_ticks

FILE = "members.jsonl"
"""Name of the file in the folder `logs` of a run or session."""
_WORKER = "worker"
_SLOW_SHARE = 0.5  # of the frames that a median worker sends
_MIN_FRAMES = 20  # of a median worker, for a comparison
_UNUSUAL = {
    ProcessState.ENDED: "has ended",
    ProcessState.IS_STOPPED: "is stopped (SIGSTOP)",
}


@dataclass(frozen=True, slots=True)
class Member:
    """A process on this machine, such as "worker-1" or "ps-0"."""

    name: str
    pid: int
    start: int
    """Time of its start, in clock ticks since the machine's: a later process may have the same id."""
    interface: str
    """Interface of the switch to which its host is attached."""


class MemberLog:
    """Writer of the file; without one it writes nothing."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file

    def begin(self, switches: Mapping[str, str]) -> None:
        """Write the addresses of the switches with their names, "" for a single one, as the first line."""
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
        self._append({"switches": switches})

    def add(self, name: str, pid: int, interface: str | None) -> None:
        """Add a process, instead of an earlier one of this name; ignore one that is on another machine."""
        if interface is not None:
            self._append({"name": name, "pid": pid, "start": start_ticks(pid), "interface": interface})

    def _append(self, line: Mapping[str, object]) -> None:
        if self._file is not None:
            with self._file.open("a") as file:
                file.write(json.dumps(line) + "\n")


def read_members(file: Path, switch: str | None = None) -> list[Member]:
    """Return the newest process of each name, in order of their names' first lines.

    There are none without a file that can be read, or if it is of other switches than that with the address
    `switch`.
    """
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return []
    members: dict[str, Member] = {}
    for line in lines:
        with suppress(ValueError):  # the last line is being written
            values = json.loads(line)
            if "switches" not in values:
                members[values["name"]] = Member(**values)
                continue
            members.clear()  # a switch that is started again begins another session
            if switch not in (None, *values["switches"]):
                return []
    return list(members.values())


def read_switch_name(file: Path, switch: str) -> str:
    """Return the name of the switch at an address; "" if the file has none, or cannot be read."""
    try:
        lines = [json.loads(line) for line in file.read_text().splitlines() if '"switches"' in line]
    except (OSError, ValueError):
        return ""
    return next((str(line["switches"][switch]) for line in lines if switch in line["switches"]), "")


@dataclass(frozen=True, slots=True)
class MemberState:
    """The activity of a member, and the frames of its host so far."""

    name: str
    activity: Activity
    frames: int | None
    """Frames that its host has sent to the switch; None if there is no such interface."""


def look_at(members: Sequence[Member]) -> list[MemberState]:
    return [MemberState(each.name, _activity_of(each), _frames_at(each.interface)) for each in members]


def _activity_of(member: Member) -> Activity:
    return read_activity(member.pid) if start_ticks(member.pid) == member.start else ENDED


def _frames_at(interface: str) -> int | None:
    try:
        return int(Path(f"/sys/class/net/{interface}/statistics/rx_packets").read_text())
    except (OSError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class MemberRates:
    """The activity of a member between two looks; before the first one, rates are None."""

    name: str
    state: str
    """That the process is stopped or has ended, or ""."""
    frames: int | None
    """Frames sent between the looks, or so far."""
    frames_per_s: float | None
    cpu_share: float | None
    """CPU time by time."""
    wait_share: float | None
    """Time for which threads waited for a CPU, by time."""
    slowness: str | None = None
    """Why the others may wait: its state, or that it sends less than half of a median worker's frames."""


def rates(
    looks: Sequence[MemberState], before: Sequence[MemberState] = (), interval_s: float | None = None
) -> list[MemberRates]:
    """Return what members did in the `interval_s` s since the look `before`, or so far."""
    earlier = {} if interval_s is None else {each.name: each for each in before}
    found = [_rates_of(each, earlier.get(each.name), interval_s) for each in looks]
    return list(_with_slowness(found))


def _rates_of(look: MemberState, before: MemberState | None, interval_s: float | None) -> MemberRates:
    state = _UNUSUAL.get(look.activity.state, "")
    if before is None or interval_s is None:
        return MemberRates(look.name, state, look.frames, None, None, None)
    frames = None
    if look.frames is not None and before.frames is not None:
        frames = max(0, look.frames - before.frames)  # an interface is made again with the network

    def share(now_s: float, before_s: float) -> float:
        return max(0.0, now_s - before_s) / interval_s  # another process of the name begins at 0

    return MemberRates(
        look.name,
        state,
        frames,
        None if frames is None else frames / interval_s,
        share(look.activity.cpu_s, before.activity.cpu_s),
        share(look.activity.wait_s, before.activity.wait_s),
    )


def _with_slowness(members: Sequence[MemberRates]) -> Iterator[MemberRates]:
    """Yield the members with their slowness, each compared with the median of all workers."""
    sent = {each.name: each.frames for each in members if each.name.startswith(_WORKER)}
    counts = [frames for frames in sent.values() if frames is not None]
    median = statistics.median(counts) if counts else 0.0
    for each in members:
        slowness, frames = each.state or None, sent.get(each.name)
        sends_little = frames is not None and median >= _MIN_FRAMES and frames < _SLOW_SHARE * median
        if slowness is None and sends_little:
            slowness = f"has sent {frames:,} frames, a median worker {median:,.0f}"
        yield replace(each, slowness=slowness)
