"""`make mutants`: mutate a copy of the tree, and count the mutants that the tests kill."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
import tomli
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tools.mutants.mutate import Mutant, draw
from tools.mutants.parts import part_of
from tools.mutants.paths import ROOT, import_paths
from tools.mutants.run import Agents, Outcome, Tests, baseline, outcome, prepare

RESULTS = ROOT / "build" / "mutants"
_SHORTEST_TIMEOUT_S = 60.0
_BASELINE_TIMEOUT_S = 600.0
_TIMEOUT_FACTOR = 5.0


@dataclass(slots=True)
class Tally:
    room: str
    mutants: int
    results: Path
    """Path of the results without the suffix."""
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    survivors: list[Mutant] = field(default_factory=list)
    """Mutants not killed; on a busy machine a survivor may appear as a time-out."""

    def file(self, suffix: str) -> Path:
        return self.results.with_name(self.results.name + suffix)


@click.command()
@click.option("--seed", default=1, show_default=True, help="Seed of the random selection.")
@click.option("--draw", "number", default=200, show_default=True, help="Mutants of a room; 0: all.")
@click.option("--again", is_flag=True, help="Only mutants not killed the last time.")
@click.option("--part", default="1/1", show_default=True, help="K/N: the Kth of N parts, to run in parallel.")
@click.argument("rooms", nargs=-1)
def main(seed: int, number: int, again: bool, part: str, rooms: tuple[str, ...]) -> None:
    """Mutate ROOMS (all, if none is named) and count the mutants that their tests kill.

    Mutants not killed are written to build/mutants/ROOM.diff, with --part to build/mutants/KofN/ROOM.diff.
    """
    selection, folder = part_of(part)
    results = RESULTS / folder
    rooms_config = tomli.loads((Path(__file__).parent / "rooms.toml").read_text())
    for room in rooms:
        if room not in rooms_config:
            raise click.BadParameter(f"{room}: the rooms are {', '.join(rooms_config)}", param_hint="ROOMS")
    results.mkdir(parents=True, exist_ok=True)
    tallies = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as copy:
        tree = Path(copy)
        _copy_tree(tree)
        _compile(tree)
        prepare(tree)
        for room in rooms or rooms_config:
            total, mutants = draw(tree, rooms_config[room]["sources"], number or None, seed)
            tally = Tally(room, total, results / room)
            if again:
                survivors = set(json.loads(tally.file(".json").read_text()))
                mutants = [mutant for mutant in mutants if mutant.diff in survivors]
            tallies.append(tally)
            _try(tree, mutants[selection], _stages(rooms_config[room]), tally)
    Console().print(_table(tallies, seed))


def _copy_tree(tree: Path) -> None:
    """Copy the files that git tracks or would track, with uncommitted changes and without ignored files."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0"):
        if name and (ROOT / name).is_file() and not (ROOT / name).is_symlink():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)


def _compile(tree: Path) -> None:
    """Compile ahead, because tests of a loop that waits for a compiler would time out."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(import_paths(tree))}
    for module in ("softswitch.warm", "hotline_agents.warm"):
        subprocess.run([sys.executable, "-m", module], cwd=tree, env=environment, check=True)


def _stages(room: dict[str, Any]) -> list[Tests]:
    """Return the tests in stages; agents' mutants that survive as plain Python are run again, compiled."""
    if "plain" in room:
        return [Tests(room["plain"], Agents.PLAIN), Tests(room["tests"], Agents.COMPILED_AHEAD)]
    return [Tests(room["tests"])]


def _try(tree: Path, mutants: list[Mutant], stages: list[Tests], tally: Tally) -> None:
    log = tally.file(".log")
    seconds = [baseline(tests, log, _BASELINE_TIMEOUT_S) for tests in stages]
    timeouts_s = [max(_SHORTEST_TIMEOUT_S, _TIMEOUT_FACTOR * each) for each in seconds]
    _write(tally)
    # No refresh thread: a child forked while that thread holds a lock would wait for the lock for ever.
    with Progress(
        console=Console(stderr=True), auto_refresh=False, redirect_stdout=False, redirect_stderr=False
    ) as progress:
        bar = progress.add_task(tally.room, total=len(mutants))
        for mutant in mutants:
            found = Outcome.SURVIVED
            for tests, limit in zip(stages, timeouts_s, strict=True):
                # A time-out is not replaced by a later stage's survival.
                if found is not Outcome.KILLED:
                    result = outcome(tree, mutant, _put_own_tests_first(tests, mutant), log, limit)
                    found = found if result is Outcome.SURVIVED else result
            tally.outcomes[found] += 1
            if found is not Outcome.KILLED:
                tally.survivors.append(mutant)
                _write(tally)
            description = f"{tally.room}: {len(tally.survivors)} not killed"
            progress.update(bar, advance=1, description=description, refresh=True)


def _put_own_tests_first(tests: Tests, mutant: Mutant) -> Tests:
    """Return the tests with those of the mutated module first, because these kill most mutants."""
    stem = mutant.path.stem
    return replace(tests, names=sorted(tests.names, key=lambda name: stem not in name))


def _write(tally: Tally) -> None:
    diffs = [mutant.diff for mutant in tally.survivors]
    tally.file(".diff").write_text("\n".join(diffs))
    tally.file(".json").write_text(json.dumps(diffs))


def _table(tallies: list[Tally], seed: int) -> Table:
    table = Table(title=f"Mutants, drawn by seed {seed}")
    table.add_column("room")
    for column in ("mutants", "drawn", "killed", "survived", "timeouts"):
        table.add_column(column, justify="right")
    for tally in tallies:
        counts = [tally.outcomes[each] for each in (Outcome.KILLED, Outcome.SURVIVED, Outcome.TIMEOUT)]
        table.add_row(tally.room, *map(str, (tally.mutants, sum(counts), *counts)))
    return table


if __name__ == "__main__":
    main()
