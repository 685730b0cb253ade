"""Verdicts about protocols by what may happen: `python -m hotline_allreduce.judge.verdicts`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import click

from foundation.logs.parts import write_text
from hotline_allreduce.atp.model.description import AtpDescription
from hotline_allreduce.atp.model.two_levels import AtpTreeDescription
from hotline_allreduce.judge.description import Description, Violation
from hotline_allreduce.judge.engine import Judge, JudgedState, PacketFault
from hotline_allreduce.judge.hotset import HotSetDescription
from hotline_allreduce.judge.levels import MOVE_TO_THE_SPINE, LevelsDescription
from hotline_allreduce.judge.page import page_of
from hotline_allreduce.judge.sets import SetsDescription
from hotline_allreduce.judge.stated import OlafDescription, SereneDescription, TrioDescription
from hotline_allreduce.judge.tree import (
    CheckedTreeDescription,
    NaiveTreeDescription,
    PlusPlusDescription,
)
from hotline_allreduce.switchml.model import description as switchml

ALL = "all of these"
COLUMNS: Mapping[str, frozenset[PacketFault]] = {
    "packets are lost": frozenset(),
    "answers are lost": frozenset({PacketFault.LOST}),
    "spraying": frozenset({PacketFault.COPIED}),
    "held up on the way to a server": frozenset({PacketFault.DELAYED}),
    "a worker dies": frozenset({PacketFault.KILLED}),
    "the switch restarts, answers are lost": frozenset({PacketFault.RESTARTED, PacketFault.LOST}),
    ALL: frozenset(PacketFault),
}
_FOLLOWED = HotSetDescription(window=1, pushes=1, moves=1, has_successors=True)
_NETWORK = HotSetDescription(window=1, pushes=2, homes=2)
_NETWORK_MOVES = HotSetDescription(workers=1, window=1, pushes=1, moves=1, homes=2)
_NETWORK_FOLLOWED = HotSetDescription(workers=1, window=1, pushes=1, moves=1, homes=2, has_successors=True)
_ONE_WINDOW = HotSetDescription(workers=1, pushes=2, homes=2, has_window_by_home=False)
_GAPS = HotSetDescription(workers=1, pushes=1, homes=2, has_window_by_home=False, accepts_gaps=True)
_LEVELS = LevelsDescription(pushes=2)
_LEVELS_MOVES = LevelsDescription(workers=1, moves=1, places=(0,))
_LEVELS_MOVED = LevelsDescription(
    workers=1, pushes=2, moves=2, places=(0,), first_steps=("A0 (slot 0, home 0)", *MOVE_TO_THE_SPINE)
)
PROTOCOLS: Mapping[str, tuple[Description, int, int]] = {
    "SwitchML": (switchml.PUBLISHED, 9, 7),
    "SwitchML, checked": (switchml.CHECKED, 9, 7),
    "ATP": (AtpDescription(), 6, 5),
    "ATP, checked": (AtpDescription(check=True), 6, 5),
    "ATP, two levels": (AtpTreeDescription(), 5, 4),
    "ATP, two levels, checked": (AtpTreeDescription(check=True), 5, 4),
    "exact": (switchml.EXACT, 9, 7),
    "hotset": (HotSetDescription(), 6, 4),
    "hotset, keys move": (HotSetDescription(window=1, pushes=1, moves=2), 8, 6),
    "hotset, workers are followed": (_FOLLOWED, 8, 6),
    "hotset in a network": (_NETWORK, 9, 6),
    "hotset in a network, keys move": (_NETWORK_MOVES, 8, 5),
    "hotset in a network, workers are followed": (_NETWORK_FOLLOWED, 7, 5),
    "hotset in a network, one window": (_ONE_WINDOW, 6, 6),
    "hotset in a network, one window, gaps": (_GAPS, 7, 6),
    "hotset at both levels": (_LEVELS, 9, 5),
    "hotset at both levels, keys move": (_LEVELS_MOVES, 12, 8),
    "hotset at both levels, a key has moved": (_LEVELS_MOVED, 11, 7),
    "Trio-ML's rule": (TrioDescription(), 7, 7),
    "Serene's rule": (SereneDescription(), 7, 7),
    "OLAF's rule": (OlafDescription(), 7, 5),
    "naive tree": (NaiveTreeDescription(), 6, 5),
    "naive tree, leaves pass repeats on": (NaiveTreeDescription(drops_repeats=False), 6, 5),
    "SwitchML++": (PlusPlusDescription(), 7, 5),
    "SwitchML++, links lose nothing": (PlusPlusDescription(has_lossy_links=False), 7, 5),
    "P-sets and A-sets": (SetsDescription((0, 1)), 7, 5),
    "P-sets and A-sets, timers": (SetsDescription(has_timers=True), 7, 4),
    "a tree with checks": (CheckedTreeDescription(), 7, 5),
}
"""Protocol -> its description, and the maximum number of steps that are searched, in the last column also."""


class JudgeVerdict(NamedTuple):
    found: dict[Violation, list[JudgedState]]
    states: int  # number of different states that the search has met
    is_exhausted: bool  # whether more steps lead to no other state

    def __str__(self) -> str:
        parts = [
            f"{violation.name.lower()} in {len(self.found[violation][0].steps)}"
            for violation in Violation
            if violation in self.found
        ]
        states = f"all {self.states:,}" if self.is_exhausted else f"{self.states:,}"
        return f"{', '.join(parts) or 'none'} ({states})"


def judge_protocol(protocol: str, column: str) -> JudgeVerdict:
    description, max_steps, max_steps_of_all = PROTOCOLS[protocol]
    judge = Judge(description, COLUMNS[column])
    found = judge.search(max_steps_of_all if column == ALL else max_steps)
    return JudgeVerdict(found, judge.states, judge.is_exhausted)


def table_lines(verdicts: Mapping[tuple[str, str], JudgeVerdict]) -> list[str]:
    protocols, columns = (list(dict.fromkeys(names)) for names in zip(*verdicts, strict=True))
    lines = [f"| | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for protocol in protocols:
        cells = [str(verdicts[protocol, column]) for column in columns]
        lines.append(f"| {protocol} | {' | '.join(cells)} |")
    return lines


@click.command()
@click.option(
    "--pages", type=click.Path(path_type=Path, file_okay=False), help="Folder for a page of each violation."
)
def main(pages: Path | None) -> None:
    """Print what a breadth-first search finds, and the number of states that it has met."""
    verdicts = {
        (protocol, column): judge_protocol(protocol, column) for protocol in PROTOCOLS for column in COLUMNS
    }
    click.echo("\n".join(table_lines(verdicts)))
    if pages is not None:
        pages.mkdir(parents=True, exist_ok=True)
        for (protocol, column), verdict in verdicts.items():
            for violation, states in verdict.found.items():
                judge = Judge(PROTOCOLS[protocol][0], COLUMNS[column])
                name = (
                    f"{protocol}-{column}-{violation.name}".lower()
                    .replace(",", "")
                    .replace("'", "")
                    .replace(" ", "-")
                )
                write_text(pages / f"{name}.html", page_of(judge, violation, states[0].steps))


if __name__ == "__main__":
    main()
