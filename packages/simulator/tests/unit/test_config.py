"""Defaults of a simulated run: enough steps for its intervals, for any size of the cluster."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from experiment.errors import ConfigError
from experiment.run_config import config_of
from hotline_simulator.config import DDL, SimulationConfig, load_hosts
from switch_harness.wording import mentions, says
from tests.harness.cli import invoke


@pytest.mark.parametrize(
    ("given", "steps"),
    [
        # Four times a million lanes, by 4 x 3,000 and by 10 x 500; of many workers what each is to have.
        ({}, 334),
        ({"workers": 10, "workload": {"keys_per_step": 500}}, 800),
        ({"workers": 80, "servers": 20}, 24),
        ({"profile_lanes": 30_000}, 24),
        ({"workers": 80, "servers": 20, "trace_steps": 5}, 5),
    ],
)
def test_a_trace_is_as_long_as_its_workers_take(given: dict[str, Any], steps: int) -> None:
    assert SimulationConfig.model_validate(given).trace_steps == steps


def test_settings_of_a_file_are_used() -> None:
    given = {"loads": (0.3, 0.7), "block_ms": 550, "discard_ms": 200, "budget_s": 100.0, "rounds": 9}
    config = SimulationConfig.model_validate(given)
    assert {name: getattr(config, name) for name in given} == given


def test_the_default_is_ddls_cluster_with_four_arms_at_half_load() -> None:
    assert SimulationConfig(workers=80, servers=20) == DDL
    assert DDL.arms == ("baseline", "proxy", "offload", "offload-proxy")
    assert (DDL.loads, DDL.rounds) == ((0.5,), None)


@pytest.mark.parametrize(
    "wrong", [{"workers": "many"}, {"workload": 3}, {"workers": 0}, {"profile_lanes": -1}]
)
def test_an_error_names_the_invalid_setting(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=rf"\b{next(iter(wrong))}\n"):
        SimulationConfig.model_validate(wrong)


def test_arm_repeat_is_left_out_with_a_single_message(caplog: pytest.LogCaptureFixture) -> None:
    config = SimulationConfig.model_validate({"arms": ("baseline", "repeat", "offload")})
    assert config.arms == ("baseline", "offload")
    assert caplog.messages == ["arm repeat is left out: a simulation has no noise that it could show"]
    assert SimulationConfig.model_validate(config.model_dump()).arms == config.arms
    assert len(caplog.messages) == 1


def test_a_script_has_no_virtual_time() -> None:
    with pytest.raises(ConfigError, match=mentions("train.py", "script")):
        config_of(SimulationConfig, {"script": "train.py"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("serve_ns = 3\n", "serve_ns: expected the table [hosts] only"),
        ("[hosts]\nserve_ns = 3\n[network]\n", "network: expected the table [hosts] only"),
        ("", "expected a table [hosts]"),
        ("[hosts]\nserve_nanoseconds = 3\n", "serve_nanoseconds = 3: there is no such setting"),
        ("[hosts\n", "not TOML"),
        (None, "No such file or directory"),
    ],
)
def test_a_file_of_hosts_is_named_by_its_option_and_holds_nothing_else(
    tmp_path: Path, text: str | None, message: str
) -> None:
    file = tmp_path / "hosts.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=f"^--hosts {file}: {re.escape(message)}"):
        load_hosts(file)
    file.write_text("[hosts]\nserve_ns = 90000\n")
    assert load_hosts(file).serve_ns == 90_000


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    file = tmp_path / "simulated.toml"
    file.write_text(f"runs = {json.dumps(str(file / 'runs'))}\n")
    reported = invoke("simulate", file)
    assert reported.exit_code == 1
    assert says(reported.output, "CONFIG", file)
