"""The lines of README and of docs/start.md, typed while a run keeps its network up."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from foundation.checkout import ROOT
from switch_harness.waiting import PATIENCE_S
from tests.harness.cli import json_of
from tests.harness.make import outer_environment
from tests.harness.shell import install, open_shell, type_into
from tests.mininet.run_topo import Run, run_topo
from tests.unit.hotline.test_start_page import PAGE

pytestmark = [pytest.mark.mininet, pytest.mark.soak]
CHANGES = PAGE[: PAGE.index("## 5. ")]
README = (ROOT / "README.md").read_text()
PORT = 9_559  # of the commands, by default
JOB, KEYS = 4, 10_000
TINY: dict[str, object] = {
    "workers": 1, "servers": 1, "top_k": 500, "rounds": 1, "loads": [0.5], "block_ms": 100, "discard_ms": 0,
    "block_steps": 5, "trace_steps": 100, "profile_lanes": 20_000, "calibration_s": 0.1, "empty_rpcs": 0,
    "budget_s": 1.0, "arms": ["baseline", "offload"], "simulate_dedicated_switch": False,
}  # fmt: skip


def typed_lines(begin: str) -> list[str]:
    """Return the commands of README's first block after a text, without comments."""
    block = README[README.index(begin) :]
    found = re.search(r"\n\n((?:    .*\n)+)", block)
    assert found is not None
    return [line.partition("   #")[0].strip() for line in found[1].splitlines()]


LINES = typed_lines("`make run-topo CLI=1` keeps the network up")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Return a run that has ended, and waits in Mininet's command line."""
    install()
    folder = tmp_path_factory.mktemp("typed")
    with run_topo(folder, "CLI=1", stdin=subprocess.PIPE, small=TINY, p4runtime_port=PORT) as run:
        run.wait_for(lambda: (run.runs / "latest" / "report.html").exists())
        yield run
        assert run.process.stdin is not None
        run.process.stdin.write("exit\n")
        assert run.wait() == 0, run.errors


@pytest.fixture(scope="module")
def checkout(up: Run) -> Path:
    """Return a folder in which the lines work as in a checkout, with the run's folder in place of `runs`."""
    folder = up.runs.parent
    for path in ROOT.iterdir():
        if path.name not in ("runs", "run.toml"):
            (folder / path.name).symlink_to(path)
    return folder


def status_of_job() -> Any:
    [status] = [each for each in json_of("status")["jobs"] if each["job"] == JOB]
    return status


def is_hot(status: Any) -> bool:
    return status["offload"] is True and status["entries"]["hot"] == KEYS


EFFECTS: dict[str, Callable[[Any], bool]] = {
    "load": is_hot,
    "offload off": lambda status: status["offload"] is False and status["entries"]["parked"] == KEYS,
    "offload on": is_hot,
    "proxy on": lambda status: status["proxy"] is True,
    "proxy off": lambda status: status["proxy"] is False,
    "unload": lambda status: sum(status["entries"].values()) == 0,
}
"""Beginning of a line -> what the job's status is after it."""


def test_the_lines_of_the_readme_work_as_described(checkout: Path) -> None:
    assert LINES[-1] == "make shell" and len(LINES) == 10
    reached = []
    for line in LINES[:-1]:
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=checkout,
            env=outer_environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert (done.returncode, done.stdout == "") == (0, False), (line, done.stderr)
        if effects := [name for name in EFFECTS if line.startswith(f"./hotline {name} ")]:
            assert EFFECTS[effects[0]](status_of_job()), (line, status_of_job())
        reached += effects
    assert reached == list(EFFECTS)
    assert pl.read_parquet(checkout / "runs" / "hot.parquet").height == KEYS
    tables = type_into(LINES[-1], "tables\nexit()\n", folder=checkout)
    assert "HotlineIngress.forward.forward" in tables


def test_the_rule_of_the_start_page_is_deleted_counted_and_inserted(up: Run, checkout: Path) -> None:
    change, count, undo = re.findall(r"^```python\n(.*?)^```$", CHANGES, re.M | re.S)
    assert "\n    make shell\n" in PAGE and "\n    w1 ping -c 1 p1\n" in PAGE

    def ping(name: str) -> None:
        """Type the page's ping, and wait until it has ended."""
        assert up.process.stdin is not None
        up.process.stdin.write(f"w1 ping -c 1 -W 1 p1\nw1 touch {checkout / name}\n")
        up.process.stdin.flush()
        up.wait_for((checkout / name).exists)

    ping("before")
    with open_shell("make shell", folder=checkout) as shell:
        shell.type(change)
        ping("without")
        drops = {int(reason): int(number) for reason, number in map(str.split, shell.type(count))}
        assert drops[11] == json_of("status")["drops"]["no_route"] == 1
        shell.type(undo)
        ping("after")
        assert shell.type(count) == [f"{reason} {number}" for reason, number in drops.items()]
