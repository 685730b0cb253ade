"""Remove each part and operation of a design: the runs that need it refuse before they begin."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest

from experiment.hotset_arms import prepare
from experiment.requirements import NEEDS, RunKind, check_design
from experiment.run_config import load_config
from foundation.designs import registry
from foundation.designs.hotset import DESIGN as HOTSET
from foundation.designs.interface import Arm, ControllerOps, Design, Forwarding, SwitchHosts
from foundation.designs.registry import NAMES, DesignError
from hotline_agents.hotset import AGENTS as HOTSET_AGENTS
from hotline_agents.interface import Agents
from hotline_scripts import up
from hotline_simulator.faults import matrix, schedule
from hotline_simulator.faults.kinds import play_schedule
from hotline_simulator.faults.schedule import FaultSchedule
from hotline_simulator.faults.testbed import SimulatedTestbed
from hotline_simulator.hotset import SWITCH_STATE_OPS
from hotline_simulator.switch_state import SwitchStateOps
from switch_harness.wording import mentions, says
from tests.harness.cli import invoke
from tests.harness.crashed_run import CrashedRunFolder
from topologies import lifecycle, mininet_testbed, preflight

NAME = "mine.design"
AGENTS: Any = HOTSET_AGENTS  # of `Any`, as parts are replaced by what does not fit
ARMS = tuple(
    replace(
        arm, name=f"my-{arm.name}", job=arm.job + 100, design=NAME,
        reference=arm.reference and f"my-{arm.reference}",
    )
    for arm in HOTSET.arms
)  # fmt: skip
EVERYWHERE = frozenset(RunKind)
WITH_SWITCH = EVERYWHERE - {RunKind.RECOVERY}
CHECKED = {RunKind.REAL, RunKind.SCRIPT}
SIMULATED = {RunKind.SIMULATED, RunKind.FAULTS}
REFUSING: dict[tuple[str, str], frozenset[RunKind] | set[RunKind]] = {
    ("agents", ""): EVERYWHERE,
    **{("agents", name): EVERYWHERE for name in ("client", "server", "store", "core")},
    ("control", ""): WITH_SWITCH,
    ("control", "rows"): WITH_SWITCH,
    ("control", "read_values"): CHECKED,
    ("switch_state", ""): SIMULATED,
    ("switch_state", "values"): SIMULATED,
    ("switch_state", "rows_to_load"): SIMULATED,
    ("switch_state", "release_to_switch"): SIMULATED,
    **{("switch_state", name): {RunKind.FAULTS} for name in ("is_entry", "is_moving", "count_writes")},
    ("program", ""): WITH_SWITCH,
    ("p4info", ""): WITH_SWITCH,
}
"""(part, operation or "" for the whole part) -> the kinds of run that need it; no other is needed."""


class Removal(NamedTuple):
    part: str
    operation: str


PARTS: dict[str, Any] = {"agents": Agents, "control": ControllerOps, "switch_state": SwitchStateOps}
REMOVALS = [
    *(Removal(part, "") for part in (*PARTS, "preparation", "program", "p4info")),
    *(Removal(part, operation) for part, kind in PARTS.items() for operation in kind._fields),
]


@dataclass
class Mine:
    """A module with a design that has everything, from which parts are removed."""

    module: ModuleType

    @property
    def design(self) -> Design:
        design: Design = self.module.DESIGN
        return design

    def change(self, **fields: Any) -> None:
        self.module.__dict__["DESIGN"] = replace(self.design, **fields)

    def remove(self, removal: Removal) -> None:
        part, operation = removal
        if operation:
            whole: Any = getattr(self.module, part)
            removed = type(whole)._field_defaults.get(operation)
            setattr(self.module, part, whole._replace(**{operation: removed}))
        elif part == "p4info":
            alone = Path(str(self.module.__file__)).with_name("alone.json")
            alone.write_bytes(HOTSET.program.read_bytes())
            self.change(program=alone)
        elif part == "program":
            self.change(program=Path("/nowhere/mine.json"))
        else:
            self.change(**{part: None})


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Mine]:
    from controller.hotset.initial_rows import CONTROL

    module = ModuleType(NAME)
    module.__file__ = str(tmp_path / "design.py")
    parts = {"agents": AGENTS, "control": CONTROL, "switch_state": SWITCH_STATE_OPS, "preparation": prepare}
    for name, part in parts.items():
        setattr(module, name, part)
    references: dict[str, Any] = {name: f"{NAME}:{name}" for name in parts}
    module.__dict__["DESIGN"] = replace(HOTSET, name="mine", arms=ARMS, module=NAME, **references)
    monkeypatch.setitem(sys.modules, NAME, module)
    monkeypatch.setattr(registry, "_external_designs", {})
    yield Mine(module)


def refusal(kind: RunKind) -> str | None:
    try:
        check_design(NAME, kind)
    except DesignError as error:
        return str(error)
    return None


@pytest.mark.parametrize("kind", RunKind, ids=lambda kind: kind.name)
@pytest.mark.parametrize("name", NAMES)
def test_the_installed_designs_lack_nothing(name: str, kind: RunKind) -> None:
    if kind is RunKind.RECOVERY and not registry.design(name).is_durable:
        with pytest.raises(DesignError, match=mentions("is_durable", "False", name)):
            check_design(name, kind)
    else:
        check_design(name, kind, SwitchHosts(workers=4, servers=2))


@pytest.mark.parametrize("removal", REMOVALS, ids=lambda removal: ".".join(filter(None, removal)))
def test_each_kind_of_run_refuses_a_design_that_lacks_only_its_needs(mine: Mine, removal: Removal) -> None:
    assert {kind for kind in RunKind if refusal(kind)} == set()
    mine.remove(removal)
    messages = {kind: message for kind in RunKind if (message := refusal(kind))}
    assert set(messages) == REFUSING.get(removal, set())
    for kind, message in messages.items():
        assert message.startswith(f"design {NAME}: ") and "\n" not in message and kind.value in message
        if removal.part in ("program", "p4info"):
            assert str(getattr(mine.design, removal.part)) in message
        else:
            assert f"part {removal.part} (" in message and f" lacks {removal.operation}" in message


def test_every_need_of_a_run_is_tested() -> None:
    assert {(need.part, need.operation) for need in NEEDS} == {each for each in REFUSING if each[1]}


def _unneeded(kind: RunKind) -> list[Removal]:
    return [each for each in REMOVALS if each.operation and kind not in REFUSING.get(each, set())]


def test_a_simulation_runs_without_the_parts_that_simulations_do_not_need(mine: Mine, tmp_path: Path) -> None:
    for removal in _unneeded(RunKind.SIMULATED):
        mine.remove(removal)
    settings = (
        f"design = '{NAME}'\nworkers = 2\nservers = 1\nrounds = 6\nloads = [0.5]\nblock_ms = 2\ntop_k = 200\n"
        f"discard_ms = 0\ntrace_steps = 40\nprofile_lanes = 10_000\nruns = '{tmp_path}'\n"
    )
    (tmp_path / "mine.toml").write_text(f"{settings}arms = ['my-baseline', 'my-offload']\n")
    ended = invoke("simulate", tmp_path / "mine.toml")
    assert ended.exit_code == 0, ended.output
    assert says(ended.stdout, "doubled", "none")


def test_faults_are_played_without_the_parts_that_faults_do_not_need(
    mine: Mine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for removal in _unneeded(RunKind.FAULTS):
        mine.remove(removal)
    monkeypatch.setitem(schedule.ARMS, "my-offload", _arm("my-offload"))
    testbed = SimulatedTestbed(_arm("my-offload"))
    outcome = play_schedule(testbed, FaultSchedule("loss", "my-offload", seed=1, loss=0.1))
    assert outcome.holds, outcome


def _arm(name: str) -> Arm:
    return next(arm for arm in ARMS if arm.name == name)


@pytest.mark.parametrize("settings", [[], ["SCRIPT=train.py"]], ids=["REAL", "SCRIPT"])
def test_a_run_of_processes_is_refused_before_anything_is_made(
    mine: Mine, settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    mine.remove(Removal("control", "read_values"))
    monkeypatch.setattr(lifecycle, "configure_logging", lambda console: None)
    monkeypatch.setattr(mininet_testbed, "hold_run_lock", _must_not_be_called)
    (tmp_path / "run.toml").write_text(f'runs = "{tmp_path / "runs"}"\n')
    assert lifecycle.main([f"DESIGN={NAME}", f"CONFIG={tmp_path / 'run.toml'}", *settings]) == 1
    message = capsys.readouterr().err
    assert message.startswith(f"hotline: design {NAME}: part control ({NAME}:control) lacks read_values, ")
    assert not (tmp_path / "runs").exists()


def test_up_is_refused_before_anything_is_made(mine: Mine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_check_privileges", _must_not_be_called)
    mine.remove(Removal("control", "rows"))
    with pytest.raises(DesignError, match=mentions("hotline", "lacks")):
        up.check(load_config([f"DESIGN={NAME}"]), mininet_testbed.MininetTestbed())


def test_a_simulation_is_refused_before_its_folder_is_made(
    mine: Mine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hotline_simulator.run.create_run_folder", _must_not_be_called)
    mine.remove(Removal("switch_state", "values"))
    (tmp_path / "mine.toml").write_text(f"design = '{NAME}'\nruns = '{tmp_path / 'runs'}'\n")
    ended = invoke("simulate", tmp_path / "mine.toml")
    assert ended.exit_code == 1
    assert ended.stderr.startswith(
        f"Error: design {NAME}: part switch_state ({NAME}:switch_state) lacks values"
    )


def test_faults_are_refused_before_a_process_begins(mine: Mine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(schedule.ARMS, "my-offload", _arm("my-offload"))
    monkeypatch.setattr(matrix, "run_in_parallel", _must_not_be_called)
    mine.remove(Removal("agents", "core"))
    with pytest.raises(DesignError, match=mentions("hotline", "faults")):
        matrix.play_rows([("loss", "my-offload")], 1, 1, None, 1, lambda done, total: None)


def test_a_recovery_is_refused_and_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crashed_run = CrashedRunFolder(tmp_path / "run")
    before = {file: file.read_bytes() for file in sorted(crashed_run.files.iterdir())}
    monkeypatch.setattr("hotline_agents.hotset.AGENTS", AGENTS._replace(core=None))
    ended = invoke("recover", crashed_run.folder, "--apply")
    assert ended.exit_code == 1
    assert says(ended.stderr, "hotset", "hotline_agents.hotset:AGENTS")
    assert {file: file.read_bytes() for file in sorted(crashed_run.files.iterdir())} == before


def _must_not_be_called(*_arguments: object, **_settings: object) -> Any:
    raise AssertionError("the run has begun")


# -- other things that a design can lack


def _without(name: str) -> tuple[Arm, ...]:
    return tuple(arm for arm in ARMS if arm.name != name)


def _changed(arm_name: str, **fields: Any) -> tuple[Arm, ...]:
    return tuple(replace(arm, **fields) if arm.name == arm_name else arm for arm in ARMS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": ()}, "expected a measured arm without a reference, "),
        ({"arms": _without("my-baseline")}, "expected a measured arm without a reference, "),
        ({"arms": _without("my-profile")}, "no arm with is_measured=False, in which its preparation, "),
        ({"arms": _changed("my-proxy", design="other")},
         f"arm my-proxy: expected design='{NAME}', by which it is selected, got 'other'"),
        ({"arms": _changed("my-proxy", reference="none")},
         "arm my-proxy: expected a measured arm as its reference, got 'none'"),
        ({"arms": _changed("my-proxy", job=70_000)}, "my-proxy: expected a job from 0 to 45535, got 70000"),
        ({"arms": _changed("my-proxy", settings=SimpleNamespace(proxies=True))},
         "arm my-proxy: settings without aggregates, expected True or False"),
        ({"arms": _changed("my-proxy", name="offload")},
         "arm offload: expected a name that no other arm has, but hotset has it"),
        ({"arms": _changed("my-proxy", job=4)},
         "arm my-proxy: expected a job that no other arm has, got 4, which is that of arm offload of hotset"),
        ({"arms": _changed("my-proxy", job=104)},
         f"expected a job that no other arm has, got 104, which is that of arm my-proxy of {NAME}"),
        ({"agents": "hosts.nothing:AGENTS"}, "No module named 'hosts.nothing'"),
        ({"agents": "hotline_agents.hotset:NOTHING"}, "has no attribute 'NOTHING'"),
        ({"agents": "hotline_agents.hotset"}, "has no part 'hotline_agents.hotset'"),
        ({"agents": "controller.forwarding:CONTROL"}, "agents (controller.forwarding:CONTROL) lacks client"),
        ({"control": "hosts.keys:KeySpace"}, "part control (hosts.keys:KeySpace) lacks rows"),
        ({"preparation": "hosts.keys:__name__"}, "part preparation (hosts.keys:__name__): expected a "),
        ({"program": registry.design("none").program}, "rows returns ServerRow("),
        ({"arms": _changed("my-proxy", settings=Forwarding())},
         f"control ({NAME}:control): rows raises TypeError: arm my-proxy is of design {NAME}, not hotset"),
    ],
)  # fmt: skip
def test_a_design_that_does_not_fit_is_refused(mine: Mine, changes: dict[str, Any], message: str) -> None:
    mine.change(**changes)
    with pytest.raises(DesignError) as refused:
        check_design(NAME, RunKind.REAL, SwitchHosts(workers=2, servers=1))
    assert str(refused.value).startswith(f"design {NAME}") or "has no part" in str(refused.value)
    assert message in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": _without("my-profile")}, "no arm with is_measured=False"),
        ({"preparation": "hotline_agents.hotset:__name__"}, "expected a coroutine function"),
    ],
    ids=["arms", "preparation"],
)
def test_each_kind_of_run_that_prepares_a_design_looks_at_its_preparation(
    mine: Mine, changes: dict[str, Any], message: str
) -> None:
    mine.change(**changes)
    reported = {kind: refusal(kind) for kind in RunKind}
    assert {kind for kind, text in reported.items() if text is not None and message in text} == {
        RunKind.REAL, RunKind.SCRIPT, RunKind.SIMULATED,
    }  # fmt: skip


def test_a_state_without_functions_is_refused(mine: Mine) -> None:
    class Unregistered(NamedTuple):
        header: object

    mine.module.__dict__["agents"] = AGENTS._replace(server=lambda *_: Unregistered(None))
    with pytest.raises(DesignError, match=mentions("server", "register_server_ops")):
        check_design(NAME, RunKind.UP)
    mine.module.__dict__["agents"] = AGENTS._replace(client=lambda caller: None)
    with pytest.raises(DesignError, match=mentions("TypeError", "client")):
        check_design(NAME, RunKind.UP)


BROKEN: dict[str, tuple[str, str]] = {
    "syntax": ("DESIGN = (\n", "'(' was never closed (broken_design.py, line 1)"),
    "name": ("DESIGN = Desing()\n", "NameError: name 'Desing' is not defined ({file}, line 1)"),
    "argument": (
        "from hotline_agents.interface import WorkerOps\nDESIGN = WorkerOps(1)\n",
        "TypeError: ",
    ),
    "key": ("DESIGN = {}['a']\n", "KeyError: 'a' ({file}, line 1)"),
    "value": ("DESIGN = 3\n", "expected a `Design`, got int"),
    "nothing": ("\n", "module 'broken_design.its' has no attribute 'DESIGN'"),
}


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("is_part", [False, True])
def test_a_module_that_cannot_be_imported_is_one_error(
    mine: Mine, kind: str, is_part: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, expected = BROKEN[kind]
    (tmp_path / "broken_design").mkdir()
    file = tmp_path / "broken_design" / "its.py"
    file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_design", raising=False)
    monkeypatch.delitem(sys.modules, "broken_design.its", raising=False)
    mine.change(agents="broken_design.its:DESIGN")
    act: Callable[[], object] = (
        (lambda: check_design(NAME, RunKind.UP))
        if is_part
        else (lambda: registry.design("broken_design.its"))
    )
    with pytest.raises(DesignError) as refused:
        act()
    if not (is_part and kind == "value"):
        assert expected.format(file=file).replace("broken_design.py", "its.py") in str(refused.value)
    assert "\n" not in str(refused.value) and "broken_design.its" in str(refused.value)
