"""Kills and joins of workers that a run makes by itself, as its settings `kill` and `join` say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

AfterDeath = Literal["end", "wait", "continue"]
"""The consequence of a worker's death for the others of a run or of `hotline up`."""
_WORKER_AT_ROUND = re.compile(r"(\d{1,5})@(\d{1,5})", re.ASCII)


class PlannedChange(NamedTuple):
    """A worker that the runner kills, or starts again, in the middle of a round's first block."""

    worker: str
    change: Literal["died", "joined"]
    round: int  # from 0
    setting: str
    """The setting as the user has written it, for messages."""


def plan_changes(
    kill: Sequence[str], join: Sequence[str], workers: int, after_death: AfterDeath
) -> list[PlannedChange]:
    """Return the changes in the order of rounds; kills come first in a round.

    Raises `ValueError` for a worker that is not there at that time, or is not dead.
    """
    kills = [_parse(text, "kill", workers) for text in kill]
    joins = [_parse(text, "join", workers) for text in join]
    changes = sorted([*kills, *joins], key=lambda change: change.round)
    dead: dict[str, int] = {}  # worker -> round in which it dies
    for change in changes:
        if change.change == "joined":
            if dead.get(change.worker, change.round) >= change.round:
                raise ValueError(
                    f"{change.setting}: expected a worker that is killed in an earlier round, with "
                    'after_death "continue"'
                )
            del dead[change.worker]
            continue
        if after_death == "end":
            raise ValueError(f'{change.setting}: after_death is "end"; expected "wait" or "continue"')
        if change.worker in dead:
            raise ValueError(f"{change.setting}: expected a worker that is alive, and this one is not")
        if after_death == "continue":
            dead[change.worker] = change.round
        if len(dead) == workers:
            raise ValueError(f"{change.setting}: expected a worker beside others, and this one is the last")
    return changes


def _parse(text: str, name: Literal["kill", "join"], workers: int) -> PlannedChange:
    match = _WORKER_AT_ROUND.fullmatch(text)
    if match is None or not 1 <= int(match[1]) <= workers or not int(match[2]):
        raise ValueError(
            f"{name} ({text}): expected WORKER@ROUND, with a worker from 1 to {workers} and a round from 1"
        )
    return PlannedChange(
        f"worker-{int(match[1])}",
        "died" if name == "kill" else "joined",
        int(match[2]) - 1,
        f"{name} ({text})",
    )
