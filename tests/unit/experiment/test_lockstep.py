"""Settings of a run whose workers push together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from experiment.errors import ConfigError
from experiment.phases.workload import generate_trace, read_data
from experiment.run_config import Config, load_config
from foundation.designs.registry import NAMES, design
from switch_harness.wording import mentions
from tests.harness.sessions import quiet

LOCKSTEP = [name for name in NAMES if design(name).is_lockstep]


def test_the_lockstep_designs_are_the_expected_five() -> None:
    assert LOCKSTEP == ["atp", "exact", "psdense", "ring", "switchml"]


@pytest.mark.parametrize("name", LOCKSTEP)
def test_lockstep_designs_run_in_a_closed_loop_on_the_hottest_parameters(name: str) -> None:
    config = load_config([f"DESIGN={name}", "TOP_K=300"])
    assert (config.loads, config.is_closed_loop, config.empty_rpcs) == ((0.0,), True, 0)
    assert not config.simulate_dedicated_switch
    small = config.model_copy(update={"trace_steps": 20})
    assert generate_trace(small, lambda _: None).space.size == 300
    assert generate_trace(small.model_copy(update={"design": "none"}), lambda _: None).space.size > 100_000


def test_data_of_the_user_is_cut_to_its_hottest_parameters(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    rows = [f"{i},{w},{key}" for i in range(3) for w in (1, 2) for key in (i + 10, 77, 99)]
    log.write_text("iteration,worker,key\n" + "\n".join(rows) + "\n")
    config = load_config(["DESIGN=ring", "WORKERS=2", "TOP_K=2", f"DATA={log}"])
    trace = read_data(config, quiet())
    assert trace is not None and trace.space.all().tolist() == [77, 99]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["DESIGN=switchml", "WORKERS=33"], r"workers \(33\) must be 2 to 32 with design switchml"),
        (["DESIGN=ring", "WORKERS=1"], r"workers \(1\) must be 2 to 32 with design ring"),
        (["DESIGN=psdense", "SCRIPT=train.py"], r"design \(psdense\) and script: .*; leave one out"),
    ],
)
def test_variables_that_lockstep_designs_cannot_have_are_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(arguments)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loads = [0.5]", r"CONFIG=.*: loads, rate and design switchml: .*leave loads and rate out"),
        ("rate = 100.0", r"loads, rate and design switchml: "),
        ("[recovery]\nreplay_log = true", r"recovery and design switchml: .*leave recovery out"),
        ("empty_rpcs = 3", r"empty_rpcs \(3\) must be 0 with design switchml"),
    ],
)
def test_settings_in_a_file_that_lockstep_designs_cannot_have_are_refused(
    load_text: Callable[..., Config], text: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load_text(f'design = "switchml"\n{text}\n')


def test_a_vector_may_be_longer_than_a_switch_s_tables_are() -> None:
    assert load_config(["DESIGN=switchml", "TOP_K=100000"]).top_k == 100_000
    with pytest.raises(ConfigError, match=mentions("top_k", 100000)):
        load_config(["TOP_K=100000"])
