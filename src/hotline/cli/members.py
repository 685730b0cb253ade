"""The workers and servers of the run on this machine, as `watch` and `status` show them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.text import Text

from experiment.members import FILE, MemberRates, MemberState, look_at, rates, read_members, read_switch_name
from hotline.cli.common import number_cells
from hotline.cli.named_switch import named_switch

COLUMNS = ("worker or server", "frames/s", "CPU", "waits for CPU", "")
"""Columns of a table of members: shares are of one CPU, and the last one says what is slow."""


class MemberWatch:
    """Reads members; the rates of each reading are those since the reading before."""

    def __init__(self, run: Path | None, switch: str) -> None:
        """Watch the members of `run`, if it goes on and has the switch at this address.

        Without `run`, they are those of the run or `hotline up` that goes on.
        """
        from topologies.lock_record import find_running_folder

        folder = find_running_folder()
        is_watched = folder is not None and (run is None or run.resolve() == folder.resolve())
        self._file = folder / "logs" / FILE if folder is not None and is_watched else None
        self._switch = switch
        self._looks: list[MemberState] = []
        self._looked_at_s: float | None = None

    @property
    def switch_name(self) -> str:
        """The name of the switch if the run has several; else ""."""
        return "" if self._file is None else read_switch_name(self._file, self._switch)

    @property
    def switch(self) -> str:
        """The address of the switch, with its name if it has one."""
        return named_switch(self._switch, self.switch_name)

    def read(self) -> list[MemberRates]:
        if self._file is None:
            return []
        before, before_s = self._looks, self._looked_at_s
        self._looks, self._looked_at_s = look_at(read_members(self._file, self._switch)), time.monotonic()
        return rates(self._looks, before, None if before_s is None else self._looked_at_s - before_s)


def slow_members(members: Sequence[MemberRates]) -> Iterator[str]:
    """Yield a phrase for each member that the others may wait for."""
    return (f"{each.name} {each.slowness}" for each in members if each.slowness is not None)


def member_cells(members: Sequence[MemberRates]) -> list[list[Text | str]]:
    return [
        [
            each.name,
            *number_cells(_number(each.frames_per_s), _share(each.cpu_share), _share(each.wait_share)),
            each.slowness or "",
        ]
        for each in members
    ]


def _number(number: float | None) -> str:
    return "–" if number is None else f"{number:,.0f}"


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"
