"""Reports of designs that do not add: what they say follows what the design declares."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from click.testing import Result

from foundation.designs import registry
from hotline_simulator.faults.matrix import Tally, cached_testbed, play_effective, rows_of
from switch_harness.wording import says
from tests.harness.cli import invoke, json_of
from tests.unit.repository.test_rooms import ROOT

TUTORIAL = ROOT / "examples" / "tutorial"
LARGEST = "examples.tutorial.largest"
TAGS = r"<script.*?</script>|<style.*?</style>|<[^>]+>"
SETTINGS = """
runs = "{runs}"
design = "{design}"
rounds = 6

[workload]
parameters = 2000
hot_parameters = 100
keys_per_step = 50

[network]
loss = {loss}
"""
MODULE = """
from dataclasses import replace
from pathlib import Path

from examples.tutorial.largest import DESIGN as LARGEST
from foundation.designs.combination import Combination

DESIGN = replace(
    LARGEST,
    program=Path(__file__).with_name("{name}.p4"),
    arms=tuple(
        replace(
            arm, name=arm.name.replace("largest", "{name}"), job=arm.job + {shift}, design=__name__,
            reference=arm.reference and "{name}-off",
        )
        for arm in LARGEST.arms
    ),
    module=__name__,
    combination=Combination.{combination},
    values_register={register},
)
"""
ADDING = "largest.write((bit<32>)key, value + last);"
"""A statement in place of the one that writes the larger value."""


def write_design(folder: Path, name: str, shift: int, combination: str, statement: str | None = None) -> str:
    """Write a variant of the tutorial's `largest` into a package; return the module's name."""
    package = folder / "variants"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").touch()
    register = '"HotlineIngress.largest"' if combination != "NONE" else "None"
    (package / f"{name}.py").write_text(
        MODULE.format(name=name, shift=shift, combination=combination, register=register)
    )
    program = (TUTORIAL / "largest.p4").read_text().replace("largest_arms", f"{name}_arms")
    program = program.replace("ARM_LARGEST", f"ARM_{name.upper()}")
    if statement is not None:
        program, count = re.subn(r"if \(\(int<32>\)value.*?\}", statement, program, flags=re.S)
        assert count == 1
    (package / f"{name}.p4").write_text(program)
    for file in ("frame.p4", "turn_around.p4"):
        (package / file).write_text((TUTORIAL / file).read_text())
    return f"variants.{name}"


@pytest.fixture(autouse=True)
def _path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_external_designs", {})
    importlib.invalidate_caches()
    yield
    cached_testbed.cache_clear()
    for name in [name for name in sys.modules if name.split(".")[0] == "variants"]:
        del sys.modules[name]


def simulate(folder: Path, design: str, loss: float = 0.0) -> Result:
    config = folder / "run.toml"
    config.write_text(SETTINGS.format(runs=folder / "runs", design=design, loss=loss))
    return invoke("simulate", config)


def play(arm: str, fault: str) -> Tally:
    testbed = cached_testbed(arm)
    return Tally.total(play_effective(testbed, fault, arm, seed) for seed in range(3))


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_every_parameter_of_a_design_with_the_maximum_holds_the_maximum(loss: float, tmp_path: Path) -> None:
    result = simulate(tmp_path, LARGEST, loss)
    assert result.exit_code == 0, result.output
    words = " ".join(result.output.split())
    assert "values were pushed, and every parameter holds the maximum of its pushes." in words
    assert "added" not in words and "loss" not in " ".join(
        json_of("report", tmp_path / "runs" / "latest")["learning"]
    )


def test_a_design_that_declares_the_maximum_and_adds_is_found(tmp_path: Path) -> None:
    result = simulate(tmp_path, write_design(tmp_path, "adding", 400, "MAX", ADDING))
    assert result.exit_code == 1
    assert says(result.output, "Not to be trusted", "keys do not hold the maximum of its pushes")


@pytest.mark.parametrize("arm", ["largest", "largest-off"])
def test_no_fault_changes_the_maximum_of_pushes(arm: str) -> None:
    name = f"{LARGEST}:{arm}"
    faults = [fault for fault, _ in rows_of([name])]
    assert {"loss", "duplication", "reordering", "worker killed", "everything"} <= set(faults)
    for fault in faults:
        tally = play(name, fault)
        assert tally.holds, (fault, tally)


def test_faults_find_a_switch_that_adds_copies_and_a_maximum_that_is_a_sum(tmp_path: Path) -> None:
    adding = write_design(tmp_path, "adding", 400, "MAX", ADDING)
    for name in ("examples.tutorial.sum:sum", f"{adding}:adding"):
        tally = Tally.total(
            play_effective(cached_testbed(name), "duplication", name, seed) for seed in range(3)
        )
        assert tally.doubled and not tally.holds


@pytest.mark.parametrize(
    ("combination", "statement", "survives_copies"),
    [("MIN", "if ((int<32>)value < (int<32>)last) { largest.write((bit<32>)key, value); }", True),
     ("COUNT", "largest.write((bit<32>)key, last + 1);", False)],
)  # fmt: skip
def test_faults_compare_with_minima_and_with_counts(
    combination: str, statement: str, survives_copies: bool, tmp_path: Path
) -> None:
    """Servers apply each push once, but a switch without a look at turns counts copies, too."""
    name = combination.lower()
    design = write_design(tmp_path, name, 400, combination, statement)
    for fault in ("loss", "duplication", "worker killed"):
        assert play(f"{design}:{name}-off", fault).holds, fault
    found = play(f"{design}:{name}", "duplication")
    assert found.holds is survives_copies and (found.doubled == 0) is survives_copies
    # A switch with the maximum has another number.
    wrong = f"{write_design(tmp_path, f'wrong{name}', 440, combination)}:wrong{name}"
    assert not play(wrong, "duplication").holds


def test_a_page_of_a_design_without_accounting_claims_nothing_of_its_values(tmp_path: Path) -> None:
    result = simulate(tmp_path, write_design(tmp_path, "sketch", 500, "NONE", ADDING), loss=0.05)
    assert result.exit_code == 0, result.output
    run = tmp_path / "runs" / "latest"
    page = re.sub(TAGS, " ", (run / "report.html").read_text(), flags=re.S)
    texts = [result.output, invoke("report", run).output, unescape(page)]
    for text in (" ".join(each.split()) for each in texts):
        assert "declares no combination of values, so none were compared" in text
        for claim in ("none lost", "0 lost", "and added", "The switch holds", "ffload", "hot set:"):
            assert claim not in text, claim
    assert says(texts[0], "Arm sketch pays off")


def test_faults_of_a_design_without_accounting_are_refused(tmp_path: Path) -> None:
    design = write_design(tmp_path, "sketch", 500, "NONE")
    result = invoke("faults", "loss", "--arm", f"{design}:sketch", "--into", tmp_path / "faults.json")
    assert result.exit_code == 1
    assert says(result.output, "combination none", "`hotline faults` has no values to compare")


def test_an_unknown_register_of_a_design_is_named(tmp_path: Path) -> None:
    design = write_design(tmp_path, "renamed", 600, "MAX")
    file = tmp_path / "variants" / "renamed.py"
    file.write_text(file.read_text().replace('"HotlineIngress.largest"', '"HotlineIngress.smallest"'))
    result = simulate(tmp_path, design)
    assert result.exit_code == 1
    assert says(
        result.output,
        "renamed.json: expected a register (HotlineIngress.largest), got 'HotlineIngress.smallest'",
    )


def test_a_model_that_the_register_of_values_cannot_hold_is_refused_before_the_run(tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    settings = SETTINGS.format(runs=tmp_path / "runs", design=LARGEST, loss=0.0)
    config.write_text(re.sub(r"\nparameters = .*", "\nparameters = 65_537", settings))
    result = invoke("simulate", config)
    assert result.exit_code == 1
    assert says(result.output, "HotlineIngress.largest has 65,536 cells", "65,537 values", "[workload]")
