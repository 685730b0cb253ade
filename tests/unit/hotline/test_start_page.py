"""The changes of docs/start.md: a setting is read; a program compiles, and loses or doubles no update.

`tests/mininet/test_typed_lines.py` types the change of a rule.
"""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from experiment import run_config as configuration
from experiment.run_config import Config, Faults
from softswitch.compiled import CompiledPipeline
from softswitch.jit import MachineCode
from softswitch.load import load_program
from softswitch.p4.cached import compile_cached
from tests.harness.switches import PipelineSwitch
from tests.harness.testbed import Testbed
from tests.harness.testnet import INGRESS
from tests.unit.programs.test_exactly_once import play
from tests.unit.repository.test_rooms import ROOT
from tools.evidence.lost_answers import patch_of

PAGE = (ROOT / "docs" / "start.md").read_text()
LOST_ANSWER = 13


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """Apply the page's change to a copy of the programs."""
    shutil.copytree(ROOT / "p4src", tmp_path / "p4src", ignore=shutil.ignore_patterns("compiled"))
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=patch_of(PAGE), text=True, check=True)
    return tmp_path / "p4src"


def test_the_setting_of_the_page_replaces_a_line_of_run_toml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shipped = configuration.RUN_TOML.read_text()
    [(setting, value)] = re.findall(r"^    (\w+) = ([\d.]+)$", PAGE, re.M)
    text, number = re.subn(rf"^{setting} = .*$", f"{setting} = {value}", shipped, flags=re.M)
    assert number == 1
    file = tmp_path / "run.toml"
    file.write_text(text)
    monkeypatch.setattr(configuration, "RUN_TOML", file)
    caplog.set_level(logging.INFO)
    assert configuration.load_config([]) == Config(faults=Faults(loss=0.01))
    assert caplog.messages == [f"{file}: faults.loss = 0.01"]


def test_the_patch_of_the_page_applies(changed: Path) -> None:
    assert f"LOST_ANSWER    = {LOST_ANSWER}" in (changed / "hotset" / "rpc.p4").read_text()
    assert "DropReason.LOST_ANSWER" in (changed / "hotset" / "readdress.p4").read_text()


def test_lost_answers_lose_and_double_nothing(changed: Path) -> None:
    compiled = compile_cached(changed / "hotset" / "hotset.p4", [changed])
    program = load_program(compiled.json)
    pipeline = CompiledPipeline(program, MachineCode(program))
    network = Testbed(PipelineSwitch(pipeline), Random(1), loss=0.0, doubling=0.0)
    play(network, 8_000)
    network.quiesce()
    network.check()
    assert pipeline.cells.read_counter(INGRESS + "drops", LOST_ANSWER, LOST_ANSWER + 1)[0].packets > 0
