"""No script ends with status 0 if a push was not applied, whatever is raised where, and however it ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from switch_harness.waiting import wait_for
from tests.harness.forked_scripts import ENDS, KINDS, PLACES, ROWS, Case, ScriptForker, script_forker
from tests.harness.loopback import RunningRendezvous, running_rendezvous

OF_CALLER = ("callback", "check", "conversion", "leave")
"""Places where a script's own `sys.exit(0)` is obeyed: nothing that was pushed is lost."""
HARMLESS = ("callback", "check", "conversion", "store")
"""Places of errors that lose no push, and that a script may handle."""
BLOCK = {"start_ns": 0, "round": 1, "load": 0.0, "discard_ns": 0, "discard_steps": 0}


class Rig(NamedTuple):
    running: RunningRendezvous
    forker: ScriptForker
    folder: Path


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("scripts")
    with running_rendezvous(folder, size=1) as running, script_forker(folder, running.place) as forker:
        yield Rig(running, forker, folder)


def cases() -> list[Any]:
    """All cases; in `make test` a twelfth of them, with each kind at each place."""
    found = []
    for (p, place), (e, end), (k, kind) in product(*map(enumerate, (PLACES, ENDS, KINDS))):
        is_fast = (p + e) % 2 == 0 and (p + e) // 2 % len(KINDS) == k
        if place != "nowhere" or is_fast:  # there, the kind makes no difference
            marks = [] if is_fast else [pytest.mark.soak]
            found.append(pytest.param(Case(kind, place, end), marks=marks, id=f"{kind}-{place}-{end}"))
    return found


def ends_with_zero(case: Case) -> bool:
    return (
        case.place == "nowhere"
        or (case.kind == "exit with 0" and case.place in OF_CALLER)
        or (case.end == "swallowed" and case.place in HARMLESS)
    )


@pytest.mark.parametrize("case", cases())
def test_a_script_ends_with_0_only_if_servers_have_all_its_pushes(rig: Rig, case: Case) -> None:
    running, cluster = rig.running, rig.running.cluster
    cluster.parts = str(rig.folder) if case.place == "recorder" else None
    joined = len(running.joined_workers)
    wait_for(lambda: running.is_idle)

    def begin_block() -> None:
        wait_for(lambda: len(running.joined_workers) > joined)
        if cluster.parts is not None:
            assert running.send_command(running.joined_workers[-1], "begin_block", **BLOCK) == {}

    ending = rig.forker.run(case, begin_block)
    wait_for(lambda: running.is_idle)
    assert ending.status is not None, f"it hangs: {ending.errors}"
    assert (ending.status == 0) == ends_with_zero(case), ending.errors
    [applied] = set(cluster.values().tolist())
    assert ending.status != 0 or applied == ending.returned
    lost = re.search(r"hotline: worker 0 ended with ([\d,]+) pushed values not delivered", ending.errors)
    reported = int(lost[1].replace(",", "")) if lost else 0
    assert reported == (ending.returned - applied) * ROWS
