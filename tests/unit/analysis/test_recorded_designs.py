"""A run of a design that is not installed any more: its reports are those that it had."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from foundation.designs import recorded, registry
from foundation.designs.arms import all_arms, arms_of, is_lockstep, measured_arms
from foundation.designs.recorded import RecordedDesign
from foundation.designs.registry import NAMES, DesignError, design
from switch_harness.wording import says
from tests.harness.cli import invoke

DESIGN = "examples.tutorial.once"
SETTINGS = """
design = "examples.tutorial.once"
workers = 2
servers = 1
rounds = 6
loads = [0.5]
block_ms = 2
discard_ms = 0
trace_steps = 40
profile_lanes = 10_000
runs = "{runs}"
workload.parameters = 20_000
workload.hot_parameters = 1_000
workload.keys_per_step = 300
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "mine.toml").write_text(SETTINGS.format(runs=folder))
    with pytest.MonkeyPatch.context() as patch:  # the fixture that forgets designs is for single tests
        patch.setattr(registry, "_external_designs", dict(registry._external_designs))
        result = invoke("simulate", folder / "mine.toml")
    assert result.exit_code == 0, result.output
    return (folder / "latest").resolve()


@pytest.fixture
def uninstalled(run: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the run, in a process that knows nothing of its design and cannot import it."""
    monkeypatch.setattr(registry, "_external_designs", {})
    monkeypatch.setattr(recorded, "_remembered", {})
    monkeypatch.setitem(sys.modules, DESIGN, None)
    with pytest.raises(DesignError):
        design(DESIGN)
    assert "once" not in all_arms()
    yield run


@pytest.mark.parametrize("name", [*NAMES, DESIGN])
def test_a_recorded_design_has_all_that_reports_ask_of_an_arm(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = RecordedDesign.of(design(name)).model_dump_json()
    known = design(name)
    arms, lockstep = known.arms, known.is_lockstep
    monkeypatch.setattr(registry, "_external_designs", {})
    monkeypatch.setattr(registry, "NAMES", ())
    monkeypatch.setattr("foundation.designs.arms.known_names", lambda: ())
    monkeypatch.setattr(recorded, "_remembered", {})
    recorded.remember(RecordedDesign.model_validate_json(written))
    assert is_lockstep(arms[0].design) is lockstep
    for given, found in zip(arms, arms_of(arms[0].design), strict=True):
        for field in ("name", "job", "design", "colour", "about", "note", "reference", "is_measured",
                      "is_lead", "sentence_prefix", "is_repetition"):  # fmt: skip
            assert getattr(found, field) == getattr(given, field)
        assert found.settings.aggregates == given.settings.aggregates
        assert found.settings.proxies == given.settings.proxies
    assert [arm.name for arm in measured_arms(arms[0].design)] == [
        arm.name for arm in arms if arm.is_measured
    ]


def test_the_report_needs_no_design(run: Path, uninstalled: Path) -> None:
    before = json.loads((run / "summary.json").read_text())
    result = invoke("report", run)
    assert result.exit_code == 0, result.output
    assert json.loads((run / "summary.json").read_text()) == before
    assert {"once-off", "once"} == before["capacity"].keys()


@pytest.mark.parametrize(
    "command",
    [
        ("figures", "{run}", "-o", "{run}/figures-again"), ("compare", "{run}", "{run}"),
        ("logs", "check", "{run}"), ("logs", "check", "{run}/rpc.parquet"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_no_command_needs_the_design(uninstalled: Path, command: tuple[str, ...]) -> None:
    result = invoke(*(part.format(run=uninstalled) for part in command))
    assert result.exit_code == 0, result.output


def test_arms_of_one_name_of_two_designs_are_an_error(uninstalled: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for file in uninstalled.iterdir():
        if file.is_file():
            (other / file.name).write_bytes(file.read_bytes())
    record = json.loads((other / "run.json").read_text())
    record["recorded_design"]["name"] = "yours.once"
    for arm in record["recorded_design"]["arms"]:
        arm["design"] = "yours.once"
    (other / "run.json").write_text(json.dumps(record))
    result = invoke("compare", uninstalled, other)
    assert result.exit_code == 1 and len(result.stderr.splitlines()) == 1
    assert says(result.stderr, "yours.once", DESIGN)


def test_arms_of_two_designs_are_compared(run: Path, uninstalled: Path, tmp_path: Path) -> None:
    """`once` adds up all pushes in the switch, so that no packet of a push reaches the servers."""
    settings = SETTINGS.replace(DESIGN, "hotset") + "arms = ['baseline', 'offload']\ntop_k = 200\n"
    (tmp_path / "other.toml").write_text(settings.format(runs=tmp_path))
    result = invoke("simulate", tmp_path / "other.toml")
    assert result.exit_code == 0, result.output
    other = (tmp_path / "latest").resolve()
    arms = (f"{other}:offload", f"{uninstalled}:once", f"{other}:baseline")
    found = json.loads(invoke("compare", *arms, "--json").stdout)
    names = [f"{other.name}:offload", f"{run.name}:once", f"{other.name}:baseline"]
    assert [each["name"] for each in found] == names
    first, once, baseline = (each["changes"]["0.5"]["ps_packets_per_step"] for each in found)
    assert (
        first["difference"] == 0
        and once["reference"] == pytest.approx(baseline["reference"], rel=1e-4)
        and baseline["reference"] > 0
    )
    assert once["ratio"] < 0 < baseline["ratio"] and once["low"] <= once["difference"] <= once["high"]
    printed = invoke("compare", *arms)
    title, _, head, *_ = printed.stdout.splitlines()
    assert printed.exit_code == 0 and title.startswith(f"Load 0.5: {names[0]}, and the others against it")
    assert [cell.strip() for cell in head.split("┃")[1:-1]] == ["", "offload", "once", "baseline"]


@pytest.mark.parametrize(
    ("arms", "code", "message"),
    [
        (["{run}:once", "{run}:twice"], 1, r":twice: expected an arm of the run \(once, once-off\)"),
        (["{run}:once", "{run}"], 2, "expected an arm of it, RUN:ARM"),
        (["{run}:once", "nowhere:once"], 1, "nowhere: not a run folder"),
    ],
)
def test_an_arm_that_cannot_be_compared_is_named(
    uninstalled: Path, arms: list[str], code: int, message: str
) -> None:
    result = invoke("compare", *(arm.format(run=uninstalled) for arm in arms))
    assert result.exit_code == code and re.search(message, result.stderr.splitlines()[-1])
