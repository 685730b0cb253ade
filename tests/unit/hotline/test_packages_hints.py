"""Errors of unknown commands, designs, rules and functions say which package has the name, and install it."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli
from click.testing import CliRunner

import hotline
from controller.errors import RuleError
from controller.hotset import rules
from experiment import requirements
from experiment.errors import ConfigError
from experiment.run_config import Config
from foundation.designs import registry
from foundation.packages import install_hint
from hosts import compiled_agents
from hotline.cli.commands import COMMANDS
from hotline.cli.commands import hotline as command_line
from switch_harness.wording import says
from tests.unit.repository.test_rooms import PACKAGES, ROOT
from topologies import script_cluster, testbed_kinds

NAMES = [
    (package, group, name)
    for package, folder in PACKAGES.items()
    for group, names in tomli.loads((folder / "pyproject.toml").read_text())["project"]
    .get("entry-points", {})
    .items()
    for name in names
]
"""Package, group and name of each entry point."""


def names_of(group: str) -> list[str]:
    return [name for _, found, name in NAMES if found == group]


def is_hint(message: str, name: str, group: str) -> bool:
    [package] = [package for package, found, each in NAMES if (found, each) == (group, name)]
    return says(message, f"packages/{package}") and f"-e ./packages/{package}`" in message


@pytest.mark.parametrize(("package", "group", "name"), NAMES, ids=lambda value: str(value))
def test_each_hint_installs_the_package_of_a_name_after_its_requirements(
    package: str, group: str, name: str
) -> None:
    hint = install_hint(group, name)
    assert is_hint(hint, name, group)
    folders = [
        word.rstrip("`").removeprefix("./packages/")
        for word in hint.split()
        if word.startswith("./packages/")
    ]
    assert folders[-1] == package
    for at, each in enumerate(folders):
        required = tomli.loads((ROOT / "packages" / each / "pyproject.toml").read_text())["project"][
            "dependencies"
        ]
        ours = {name.removeprefix("hotline-") for name in required if name.startswith("hotline-")}
        assert ours - {"testbed"} <= set(folders[:at])


def test_a_name_of_no_package_has_no_hint(tmp_path: Path) -> None:
    assert install_hint("hotline.commands", "fly") == ""
    assert install_hint("hotline.rules", "policies") == ""  # it is a command
    assert install_hint("hotline.commands", "policies", tmp_path) == ""  # installed without a checkout


def test_an_unknown_command_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in names_of("hotline.commands"):
        monkeypatch.delitem(COMMANDS.data, name)
        result = CliRunner().invoke(command_line, [name, "--help"])
        assert result.exit_code == 2 and is_hint(result.stderr.splitlines()[-1], name, "hotline.commands")
    result = CliRunner().invoke(command_line, ["fly"])
    assert result.exit_code == 2 and "packages/" not in result.stderr


def test_an_unknown_function_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hotline, "__all__", ["curve"])
    for name in names_of("hotline.api"):
        with pytest.raises(AttributeError) as raised:
            getattr(hotline, name)
        assert is_hint(str(raised.value), name, "hotline.api")
    with pytest.raises(AttributeError, match="curve"):
        hotline.fly  # noqa: B018  # the access is what fails


def test_an_unknown_design_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "NAMES", ("hotset",))
    for name in names_of("hotline.designs"):
        with pytest.raises(registry.DesignError) as raised:
            registry.design(name)
        assert is_hint(str(raised.value), name, "hotline.designs")


def test_an_unknown_rule_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "_entry_points", dict)
    for name in names_of("hotline.rules"):
        with pytest.raises(RuleError) as raised:
            rules.find_rule(name)
        assert is_hint(str(raised.value), name, "hotline.rules")


def test_a_testbed_that_is_not_installed_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testbed_kinds, "entry_points", lambda group: [])
    with pytest.raises(ConfigError) as raised:
        testbed_kinds.testbed_kind(Config(machines="tls://192.0.2.1:8786"))
    assert is_hint(str(raised.value), "machines", "hotline.testbeds")


def test_a_missing_part_of_a_design_is_reported_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_parts_of_packages", dict)
    for part, group in {"agents": "hotline.agents", "switch_state": "hotline.switch_states"}.items():
        for name in names_of(group):
            assert is_hint(registry.hint_of_part(registry.design(name), part), name, group)
    assert registry.hint_of_part(registry.design("none"), "switch_state") == ""
    reason = requirements.lacks_anything("hotset", requirements.RunKind.SIMULATED)
    assert reason is not None and "packages/agents" in reason


def test_compiled_agents_that_are_not_installed_name_their_package() -> None:
    assert is_hint(compiled_agents.absence_message("It"), "fast", "hotline.codecs")


def test_a_script_without_its_package_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_cluster, "entry_points", lambda group: [])
    with pytest.raises(ConfigError) as raised:
        script_cluster.find_script_cluster()
    assert is_hint(str(raised.value), "cluster", "hotline.scripts")


def test_a_module_that_is_not_installed_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hotline, "_MODULES", {})
    for name in names_of("hotline.modules"):
        with pytest.raises(AttributeError) as raised:
            getattr(hotline, name)
        assert is_hint(str(raised.value), name, "hotline.modules")


def test_all_groups_of_entry_points_are_tested() -> None:
    """A run without a predictor says which design or part has none, and not the predictor's package."""
    tried = {
        "agents", "api", "codecs", "commands", "designs", "modules", "predictors", "rules", "scripts",
        "switch_states", "testbeds",
    }  # fmt: skip
    assert {group.removeprefix("hotline.") for _, group, _ in NAMES} == tried
