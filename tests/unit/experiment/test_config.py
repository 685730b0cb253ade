"""Test the sources of a run's configuration and the messages for wrong values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli
from pydantic import BaseModel

from controller.sizes import SLOTS
from experiment.defaults import CODEC_DEFAULTS, SCRIPT_DEFAULTS, TARGET_DEFAULTS
from experiment.errors import ConfigError
from experiment.run_config import Config, config_of, load_config, max_top_k
from experiment.variables import VARIABLES
from foundation.protocol.hashing import lanes_of
from switch_harness.wording import mentions


def test_defaults_are_the_main_job() -> None:
    config = load_config([])
    assert (config.target, config.workers, config.servers) == ("softswitch", 4, 2)
    assert (config.top_k, config.rounds, config.loads) == (20_000, None, (0.5, 0.8))


def test_variables_are_converted_to_their_types() -> None:
    config = load_config(["TARGET=bmv2", "WORKERS=8", "PS=3", "PCAP=1", "CLI=0", "DATA=train.svm", "SEED=7"])
    assert config == Config(
        target="bmv2", workers=8, servers=3, pcap=True, cli=False, data=Path("train.svm"), seed=7
    )


def test_variables_win_over_the_file(load_text: Callable[..., Config]) -> None:
    config = load_text("rounds = 3\nloads = [0.3]\ntop_k = 10\n[faults]\nloss = 0.05\n", "ROUNDS=5")
    assert (config.rounds, config.loads, config.top_k, config.faults.loss) == (5, (0.3,), 10, 0.05)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["DATA="], r"^DATA=: has no value; leave DATA out for its default$"),
        (["CONFIG="], r"^CONFIG=: has no value"),
        (["TARGET=tofino"], r"^TARGET=tofino: Input should be 'softswitch' or 'bmv2'$"),
        (["WORKERS=0"], r"^WORKERS=0: Input should be greater than or equal to 1$"),
        (["WORKERS=100"], r"^WORKERS=100: Input should be less than or equal to 99$"),
        (["PS=43"], r"^PS=43: Input should be less than or equal to 42$"),
        (["TOP_K=114689"], r"^TOP_K=114689: Input should be less than or equal to 114688$"),
        (["TOP_K=57345"], r"^top_k \(57345\) must be at most 57,344 with arms offload and offload-proxy$"),
        (["ROUNDS=many"], r"^ROUNDS=many: Input should be a valid integer"),
        (["WORKER=4"], r"^WORKER=4: there is no variable WORKER; there are DESIGN, TARGET, WORKERS"),
        (["WORKER=4"], r"; did you mean WORKERS\?$"),
        (["--help"], r"^--help: expected NAME=value"),
        (["CONFIG=/nowhere.toml"], r"^CONFIG=/nowhere.toml: No such file or directory$"),
    ],
)
def test_bad_variables_are_named(arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(arguments)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rounds = 0", r"rounds = 0: Input should be greater than or equal to 1$"),
        ("round = 3", r"round = 3: there is no such setting; there are .*; did you mean rounds\?$"),
        ("[faults]\nlos = 0.1", r"faults\.los = 0\.1: there is no such setting; there are loss, duplication"),
        ("rounds 3", "not TOML: "),
        ("loads = " + "[" * 1000, "not TOML: .*(more than the allowed|recursion)"),
        (".".join("n" * 999) + " = 1", r"n = \{'n': .*\.\.\..*\}: there is no such setting"),
        ('arms = ["\\b"]', r"arms \(\\x08\) must be some of"),
        ('"a\\nb" = 1', r"a\\nb = 1: there is no such setting; there are design, [^?]*$"),
        ("rate = 0", "rate = 0: Input should be greater than 0$"),
        ("loads = []", r"loads \(\) must be one fraction or more"),
        ("loads = [0.5, 0.5]", r"loads \(0\.5, 0\.5\) must differ$"),
        ("block_ms = 100", r"discard_ms \(130\) must be less than block_ms \(100\)$"),
        ("[faults]\nloss = 1.5", r"faults\.loss = 1\.5: Input should be less than 1$"),
        ("target = 'bmv2'\n[faults]\nloss = 0.1", "faults are a feature of the softswitch"),
    ],
)
def test_bad_files_are_named(load_text: Callable[..., Config], text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"^CONFIG=.*run\.toml: {message}"):
        load_text(text)


@pytest.mark.parametrize("jobs", [1, 2, 3])
@pytest.mark.parametrize("seed", range(20))
def test_the_largest_hot_sets_fit_the_lanes(seed: int, jobs: int) -> None:
    keys = np.random.default_rng(seed).integers(0, 2**40, max_top_k(jobs), dtype=np.uint64)
    assert np.bincount(lanes_of(keys)).max() * jobs <= SLOTS


def test_the_profile_jobs_hot_set_gives_way_if_there_is_no_room() -> None:
    assert Config(top_k=max_top_k(3)).has_room_for_profile
    assert not Config(top_k=max_top_k(3) + 1).has_room_for_profile
    alone = Config(top_k=100_000, arms=("baseline", "offload"))
    assert not alone.has_room_for_profile and [arm.name for arm in alone.offloaded_arms] == ["offload"]
    assert Config(top_k=max_top_k(2), arms=("baseline", "offload")).has_room_for_profile
    assert Config(top_k=max_top_k(1), arms=("baseline", "proxy")).has_room_for_profile


@pytest.mark.parametrize("arms", [["offload"], ["baseline", "offload", "offload"], ["baseline", "warm"], []])
def test_arms_that_cannot_be_measured_are_refused(load_text: Callable[..., Config], arms: list[str]) -> None:
    wanted = r"must be some of baseline, repeat, proxy, offload, offload-proxy, including baseline$"
    with pytest.raises(ConfigError, match=rf"arms \({', '.join(arms)}\) {wanted}"):
        load_text(f"arms = {arms}")


def test_arms_are_in_their_own_order() -> None:
    assert [arm.name for arm in Config(arms=("offload", "baseline")).measured_arms] == ["baseline", "offload"]


def test_the_papers_workloads_have_their_names(load_text: Callable[..., Config]) -> None:
    for text, name in (
        ("", "R1"),
        ("[workload]\nparameters = 150_000_000\nhot_share = 0.7", "R2"),
        ("[workload]\nhot_share = 0.3", "clicks"),
    ):
        assert load_text(text).workload.shape().name == name
    with pytest.raises(ConfigError, match=mentions("workload.hot_parameters", 100)):
        load_text("[workload]\nparameters = 100\nhot_parameters = 100")


RUN_TOML = Path(__file__).parents[3] / "run.toml"
SETTING = re.compile(r"^(# )?(\w+) = ", re.MULTILINE)
TABLE_OR_SETTING = re.compile(r"^(?:\[(\w+)\]|(?:# )?(\w+) = )", re.MULTILINE)


def flat(model: Any) -> dict[str, Any]:
    """Return the dotted names of all settings, with those of tables, and their fields."""
    fields: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        inner = flat(field.annotation) if isinstance(field.default, BaseModel) else {}
        fields |= {f"{name}.{key}": each for key, each in inner.items()} or {name: field}
    return fields


def test_run_toml_has_every_default() -> None:
    values = tomli.loads(RUN_TOML.read_text())
    assert Config.model_validate(values) == Config() == load_config([f"CONFIG={RUN_TOML}"])
    tables = {key: value for key, value in values.items() if isinstance(value, dict)}
    written = {name for name in values if name not in tables}
    written |= {f"{table}.{name}" for table, settings in tables.items() for name in settings}
    fixed = {name for name, field in flat(Config).items() if field.default is not None}
    dependent = (*CODEC_DEFAULTS.values(), *TARGET_DEFAULTS.values(), SCRIPT_DEFAULTS)
    changed = {name for sizes in dependent for name, _ in sized(sizes)}
    assert written == fixed - changed - {"codec"}  # its default depends on what is installed


def test_run_toml_has_every_setting_that_has_no_default_behind_a_hash(
    load_text: Callable[..., Config],
) -> None:
    text = SETTING.sub(r"\2 = ", RUN_TOML.read_text())
    # No run has all: a script has data, loads and a pace of its own, an optimiser its rate and design, and
    # several machines place agents themselves.
    lines = [
        line
        for line in text.splitlines(True)
        if not line.startswith(("script =", "optimiser =", "machines ="))
    ]
    config = load_text("".join(lines))
    assert None not in config.model_dump(exclude={"placement", "script", "optimiser", "machines"}).values()
    assert None not in config.placement.model_dump().values()
    assert set(paragraphs()) == set(flat(Config))


def sized(sizes: Mapping[str, Any], table: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each setting with its default, those of tables under their full names."""
    for name, size in sizes.items():
        if isinstance(size, Mapping):
            yield from sized(size, f"{name}.")
        else:
            yield f"{table}{name}", size


def test_run_toml_has_every_size_that_agents_of_scapy_carry() -> None:
    of = paragraphs()
    assert set(CODEC_DEFAULTS) == {"scapy", "mixed"} and CODEC_DEFAULTS["mixed"] == CODEC_DEFAULTS["scapy"]
    for setting, size in sized(CODEC_DEFAULTS["scapy"]):
        assert 'codec "scapy"' in of[setting] and f"{size:,g}" in of[setting], setting
    assert '"mixed"' in of["codec"]


def test_run_toml_has_every_size_of_a_target() -> None:
    of = paragraphs()
    for target, sizes in TARGET_DEFAULTS.items():
        for setting, size in sized(sizes):
            assert target in of[setting] and f"{size:,g}" in of[setting], setting


def test_run_toml_has_every_size_of_a_script() -> None:
    of = paragraphs()
    for setting, size in sized(SCRIPT_DEFAULTS):
        reported = (
            "none" if setting == "loads" else str(size).lower() if isinstance(size, bool) else f"{size:g}"
        )
        assert "script" in of[setting] and reported in of[setting], setting


def test_a_script_runs_in_a_closed_loop_with_own_sizes() -> None:
    config = load_config(["SCRIPT=train.py --name 'two words'"])
    assert config.script_command == ["train.py", "--name", "two words"]
    assert config.is_closed_loop and config.loads == (0.0,) and not config.empty_rpcs
    assert (config.calibration_s, config.simulate_dedicated_switch) == (0.5, False)
    assert not load_config([]).is_closed_loop and load_config([]).script_command == []


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("DATA=x.csv", ["data", "script"]),
        ("CODEC=scapy", ["scapy", "script"]),
        ("loads = [0.5]", ["loads", "closed loop"]),
        ("rate = 3.0", ["rate", "closed loop"]),
        ("empty_rpcs = 4", ["empty_rpcs (4)", "script"]),
        ("[recovery]\nreplay_log = true", ["recovery", "script"]),
    ],
)
def test_settings_that_scripts_cannot_have_are_refused(
    load_text: Callable[..., Config], setting: str, named: list[str]
) -> None:
    text, variables = ("", [setting]) if setting[0].isupper() else (setting, [])
    with pytest.raises(ConfigError) as raised:
        load_text(text, "SCRIPT=train.py", *variables)
    assert all(each in str(raised.value) for each in named)


@pytest.mark.parametrize("script", [" ", "'train.py"])
def test_a_script_is_a_path_and_arguments(script: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(repr(script)) + ".*path"):
        load_config([f"SCRIPT={script}"])


def paragraphs() -> dict[str, str]:
    """Return the paragraph around each setting, by its dotted name; paragraphs end with an empty line."""
    found: dict[str, str] = {}
    table = ""
    for text in RUN_TOML.read_text().split("\n\n"):
        for header, name in TABLE_OR_SETTING.findall(text):
            table = f"{header}." if header else table
            found |= {f"{table}{name}": text} if name else {}
    return found


@pytest.mark.parametrize(("name", "field"), flat(Config).items())
def test_run_toml_has_every_range(name: str, field: Any) -> None:
    paragraph = paragraphs()[name]
    words = {"ge": "{:,} or more|{:,} to ", "gt": "above {:,}", "le": " to {:,}", "lt": "less than {:,}"}
    for kind, text in words.items():
        for limit in [getattr(bound, kind) for bound in field.metadata if hasattr(bound, kind)]:
            assert re.search(text.format(limit, limit), paragraph), (name, kind, limit)
    for variable in [variable for variable, of in VARIABLES.items() if of.setting == name]:
        assert re.search(rf"\([A-Z_, ]*\b{variable}\b[A-Z_, ]*\)", paragraph), variable


@pytest.mark.parametrize(
    ("design", "optimiser", "message"),
    [
        ("hotset", '"adam"', r"optimiser adam\(.*\): design hotset can only add pushes"),
        ("ring", '"adam"', r"design ring can only add pushes; expected design collect, none, or no"),
        ("none", '"adam"\nscript = "train.py"', r"and script: a script gives hotline.Worker"),
        ("none", '"adam"\nlearning_rate = 1', r"and learning_rate \(1\): .* leave learning"),
        ("none", '"lamb"', r"optimiser\b.*expected sgd\(lr=0.1\), .* got 'lamb'$"),
        ("none", '"sgd"', r"optimiser\b.* sgd: sgd expects lr$"),
    ],
)
def test_impossible_optimisers_are_refused(
    load_text: Callable[..., Config], design: str, optimiser: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load_text(f'design = "{design}"\noptimiser = {optimiser}')


def test_an_optimiser_is_a_setting(load_text: Callable[..., Config]) -> None:
    config = load_config(["DESIGN=none", "OPTIMISER=adagrad(lr=0.1)"])
    assert str(config.optimiser) == "adagrad(lr=0.1, eps=1e-10, initial=0)"
    assert load_text('design = "none"\noptimiser = "adagrad(lr=0.1)"').optimiser == config.optimiser


def test_a_run_with_an_optimiser_collects_unless_its_design_is_given(
    load_text: Callable[..., Config],
) -> None:
    assert load_text('optimiser = "adam"').design == "collect"
    assert load_text('design = "none"\noptimiser = "adam"').design == "none"
    assert load_text("").design == "hotset"


WORKER_LEAVES = {"hot_sets": "worker-leaves", "design": "collect"}


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"design": "none", "arms": ["none"]}, ("design none", "hotset", "collect")),
        ({"target": "bmv2"}, ("target bmv2", "softswitch")),
        ({"machines": "tcp://a:1"}, ("machines", "this machine")),
        ({"leaves": 4, "workers": 3}, ("leaves (4)", "3")),
        *(
            ({**settings, **homes}, (*named, "several switches"))
            for homes in ({"hot_sets": "leaves"}, {"hot_sets": "both"}, {"spines": 2})
            for settings, named in (
                ({"codec": "scapy"}, ("codec scapy",)),
                ({"script": "train.py"}, ("script",)),
            )
        ),
        *(
            ({"after_death": "wait", **homes}, ("after_death", "several homes", '"worker-leaves"'))
            for homes in ({"hot_sets": "leaves"}, {"hot_sets": "both"}, {"spines": 2})
        ),
        ({**WORKER_LEAVES, "leaves": 8, "workers": 8, "servers": 9}, ("leaves (8)", "servers (9)", "64")),
        ({"hot_sets": "worker-leaves"}, ('"worker-leaves"', "design hotset", "collect")),
        ({"hot_sets": "both", "design": "collect"}, ('"both"', "design collect", "hotset")),
        ({"hot_sets": "both", "servers": 33}, ('"both"', "servers (33)", "21")),
        ({**WORKER_LEAVES, "script": "train.py"}, ("script", "several switches")),
        # 4 workers and 2 servers
        ({"hosts_per_leaf": 2}, ("hosts_per_leaf (2)", "leaves (2)", "expected 3 leaves", "6 hosts")),
        ({"hosts_per_leaf": 2, "leaves": 4}, ("hosts_per_leaf (2)", "leaves (4)", "expected 3 leaves")),
        ({"oversubscription": 4}, ("oversubscription (4)", "cable_mbit 0", "bandwidth")),
        ({"hosts_per_leaf": 6}, ("hosts_per_leaf (6)", "less than 6 hosts")),
        *(
            ({"routing": routing, **settings}, (f'routing "{routing}"', *named))
            for routing in ("ecmp", "spray")
            for settings, named in (
                ({"hot_sets": "leaves"}, ("spines 1", "2 spines or more")),
                ({"spines": 2}, ('hot_sets "spine"', '"leaves"', '"worker-leaves"')),
            )
        ),
        ({"routing": "spray", "spines": 2, "design": "none", "arms": ["none"]}, ("design none", "collect")),
    ],
)
def test_settings_without_an_equivalent_in_a_network_of_switches_are_refused(
    settings: dict[str, object], named: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError, match=mentions('"leaf-spine"', *named)):
        config_of(Config, {"topology": "leaf-spine", **settings})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"routing": "spray", "spines": 2}, 'routing = spray and topology "switch"'),
        ({"hosts_per_leaf": 3}, 'hosts_per_leaf = 3 and topology "switch"'),
        ({"oversubscription": 4}, 'oversubscription = 4.0 and topology "switch"'),
    ],
)
def test_settings_of_a_network_of_switches_are_refused_with_one_switch(
    settings: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=mentions(message, 'expected topology "leaf-spine"')):
        config_of(Config, settings)


@pytest.mark.parametrize("routing", ["ecmp", "spray"])
@pytest.mark.parametrize("placement", [{"hot_sets": "leaves"}, WORKER_LEAVES])
def test_a_network_has_the_racks_and_the_routing_of_the_settings(
    placement: dict[str, object], routing: str
) -> None:
    settings = {"leaves": 3, "spines": 2, "hosts_per_leaf": 2, "routing": routing, **placement}
    network = config_of(Config, {"topology": "leaf-spine", **settings}).leaf_spine
    assert network is not None and (network.routing, network.hosts_per_leaf) == (routing, 2)
    assert [*map(network.leaf_of, network.hosts)] == [2, 2, 3, 3, 4, 4]
    assert network.homes == ([4] if network.place == "leaves" else [2, 3])


def test_leaves_without_workers_need_no_rows_of_homes() -> None:
    """Of seven leaves the workers have one, so 17 servers have as many rows for each of four jobs."""
    settings = {**WORKER_LEAVES, "workers": 3, "servers": 17, "leaves": 7, "hosts_per_leaf": 3}
    assert config_of(Config, {"topology": "leaf-spine", **settings}).leaf_spine is not None
    with pytest.raises(ConfigError, match="servers times leaves"):
        config_of(Config, {"topology": "leaf-spine", **settings, "hosts_per_leaf": 0, "workers": 7})


def test_workers_whose_leaf_is_their_only_home_may_have_successors() -> None:
    config = config_of(Config, {"topology": "leaf-spine", **WORKER_LEAVES, "after_death": "wait"})
    assert config.has_hot_sets_at_several_switches and config.after_death == "wait"


@pytest.mark.parametrize("settings", [{"codec": "scapy"}, {"script": "train.py"}, {"after_death": "wait"}])
def test_a_network_with_the_hot_set_at_one_spine_has_scripts_scapy_and_successors(
    settings: dict[str, object],
) -> None:
    config = config_of(Config, {"topology": "leaf-spine", **settings})
    assert not config.has_hot_sets_at_several_switches
