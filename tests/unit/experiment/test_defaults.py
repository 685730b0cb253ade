"""Test that default sizes depend on the codec and yield to explicit settings."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiment.defaults import CODEC_DEFAULTS, with_defaults
from experiment.errors import ConfigError
from experiment.phases.measure import steps_of_block
from experiment.phases.workload import generate_trace, steps_to_profile
from experiment.run_config import Config, load_config
from foundation.designs.registry import NAMES
from foundation.protocol.header import LANES
from hosts.ps_config import PsConfig
from hosts.scapy import DESIGNS
from hosts.worker_config import WorkerConfig
from hotline_simulator.config import SimulationConfig

RUN_TOML = Path(__file__).parents[3] / "run.toml"
READABLE = CODEC_DEFAULTS["scapy"]
STEPS_OF_A_CLOSED_LOOP = 8
RPC_S = 0.006
"""CPU time of an RPC, of worker and server together, measured on a core that others use too."""


@pytest.mark.parametrize("codec", ["scapy", "mixed"])
def test_scapy_agents_have_their_own_default_sizes(codec: str) -> None:
    config = load_config([f"CODEC={codec}"])
    assert config.model_dump(include=set(READABLE)) == {
        **READABLE,
        "workload": {**Config().workload.model_dump(), **READABLE["workload"]},
    }
    others = {"codec", *READABLE}
    assert config.model_dump(exclude=others) == Config().model_dump(exclude=others)


def test_the_rpcs_of_all_workers_fit_into_a_queue_of_bmv2(load_text: Callable[..., Config]) -> None:
    """A port has room for 64 frames: RPCs of up to 16 workers, all at one server."""
    bmv2_queue = 64
    for variables in ([], ["CODEC=scapy"], ["WORKERS=16"], ["SCRIPT=train.py"]):
        config = load_config(["TARGET=bmv2", *variables])
        assert config.workers * config.window <= bmv2_queue
    assert load_text("target = 'bmv2'\nwindow = 32").window == 32
    assert load_config([]).window == 64


@pytest.mark.parametrize("codec", ["scapy", "mixed"])
@pytest.mark.parametrize(
    ("text", "variables", "reason"),
    [
        *(
            ("", [f"DESIGN={name}"], rf"design {name}: agents of Scapy speak .* the designs hotset and none")
            for name in sorted(set(NAMES) - set(DESIGNS))
        ),
        ("", ["OPTIMISER=adagrad"], "optimiser: servers of Scapy add what workers push"),
        ("", ["OPTIMISER=adam", "DESIGN=none"], "optimiser: servers of Scapy add what workers push"),
        ("[recovery]\njournal_sync = 'never'", [], "recovery: servers of Scapy keep no journal"),
        ("[recovery]\nreplay_log = true", [], "recovery: .* workers of Scapy no replay log"),
        ("", ["SCRIPT=train.py"], "script: scripts are compiled workers"),
    ],
)
def test_settings_that_agents_of_scapy_cannot_have_are_refused(
    load_text: Callable[..., Config], codec: str, text: str, variables: list[str], reason: str
) -> None:
    with pytest.raises(ConfigError, match=rf"codec \({codec}\) and {reason}"):
        load_text(text, f"CODEC={codec}", *variables)


@pytest.mark.parametrize("codec", ["scapy", "mixed"])
@pytest.mark.parametrize("design", DESIGNS)
def test_agents_of_scapy_take_their_designs(codec: str, design: str) -> None:
    assert load_config([f"CODEC={codec}", f"DESIGN={design}"]).codec == codec


def test_compiled_agents_have_the_defaults() -> None:
    assert load_config(["CODEC=fast"]) == Config()


@pytest.mark.parametrize("name", [name for name in READABLE if name != "workload"])
def test_sizes_in_a_file_override_the_defaults_of_the_codec(
    load_text: Callable[..., Config], name: str
) -> None:
    wanted = getattr(Config(), name) or 7
    config = load_text(f'codec = "scapy"\n{name} = {wanted}\n')
    assert getattr(config, name) == wanted
    others = set(READABLE) - {name}
    assert config.model_dump(include=others) == load_config(["CODEC=scapy"]).model_dump(include=others)


def test_the_shipped_run_toml_leaves_sizes_to_the_codec() -> None:
    assert load_config(["CODEC=scapy", f"CONFIG={RUN_TOML}"]) == load_config(["CODEC=scapy"])


def test_sizes_in_variables_override_the_defaults_of_the_codec(load_text: Callable[..., Config]) -> None:
    text = "window = 2\n[workload]\nkeys_per_step = 40\nhot_share = 0.6\n"
    config = load_text(text, "CODEC=scapy", "TOP_K=20000", "ROUNDS=3")
    assert (config.top_k, config.rounds, config.window) == (20_000, 3, 2)
    assert config.workload.model_dump() == {**READABLE["workload"], "keys_per_step": 40, "hot_share": 0.6}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workload = 3", r"^CONFIG=.*: workload = 3: "),
        ("[workload]\nparameters = 600", r"hot_parameters \(600\) must be less than its parameters \(600\)$"),
        ("[workload]\nkeys = 3", r"^CONFIG=.*: workload.keys = 3: there is no such setting"),
        ("window = 0", r"^CONFIG=.*: window = 0: Input should be greater than or equal to 1$"),
        ("window = 65", r"^CONFIG=.*: window = 65: Input should be less than or equal to 64$"),
        (
            "codec = ['scapy']",
            r"^CONFIG=.*: codec = \['scapy'\]: Input should be 'fast', 'scapy' or ",
        ),
        ("codec = 'Scapy'", r"^CONFIG=.*: codec = 'Scapy': Input should be 'fast', 'scapy' or 'mixed'$"),
    ],
)
def test_a_wrong_setting_is_named_alike_for_every_codec(
    load_text: Callable[..., Config], text: str, message: str
) -> None:
    codec = [] if "codec" in text else ["CODEC=scapy"]
    with pytest.raises(ConfigError, match=message):
        load_text(text, *codec)


@pytest.mark.parametrize("kind", [WorkerConfig, PsConfig])
def test_agents_have_the_codecs_of_a_run(kind: Any) -> None:
    assert kind.model_fields["codec"].annotation == Config.model_fields["codec"].annotation


def test_a_simulation_uses_compiled_agents_for_every_codec() -> None:
    config = SimulationConfig(codec="scapy")
    assert config.model_dump(exclude={"codec"}) == SimulationConfig().model_dump(exclude={"codec"})


@pytest.mark.parametrize("design", DESIGNS)
def test_scapy_agents_carry_a_run_in_three_minutes(design: str) -> None:
    """Estimate a run's duration from its sizes: RPCs of all phases on one core, with full lanes."""
    config = Config(codec="scapy", design=design)
    trace = generate_trace(config, lambda _: None)
    lanes_per_step = len(trace.position) / (trace.workers * trace.steps)
    assert lanes_per_step == pytest.approx(100, rel=0.05)
    rpcs = 2 * config.servers * -(-lanes_per_step // (config.servers * LANES))
    step_s = rpcs * RPC_S * config.workers  # of every worker
    loops = 4 * len(config.arms) * STEPS_OF_A_CLOSED_LOOP * step_s
    profile = steps_to_profile(config, trace.steps, trace.lanes) * step_s
    assert profile + loops < 60
    period_ns = round(1e9 * step_s / (max(config.loads) or 1))
    block_s = steps_of_block(config, period_ns, rounds=6) * period_ns / 1e9
    assert 6 * len(config.arms) * len(config.loads) * block_s < config.budget_s <= 80


def test_the_closed_loop_of_a_calibration_is_as_short_as_allowed() -> None:
    """A block has 8 steps of each worker; above 32 steps/s it would have more."""
    assert Config(codec="scapy").calibration_s * 32 / 4 <= STEPS_OF_A_CLOSED_LOOP


def test_the_page_of_results_has_the_sizes_of_runs_with_rows_of_several_values() -> None:
    page = (RUN_TOML.parent / "docs" / "results.md").read_text()
    paragraph = page.partition("**Rows of several values.**")[2].partition("<!--")[0]
    sizes = [with_defaults({"dim": dim}, None) for dim in (16, 64, 128)]
    numbers = [int(each.replace(",", "")) for each in re.findall(r"\d+,\d{3}", paragraph)]
    of_others, of_64, of_128 = (each["workload"]["parameters"] for each in sizes)
    assert numbers == [*(each["top_k"] for each in sizes), of_others, of_64, of_128]
