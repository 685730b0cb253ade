"""What a machine of a run must be, and what reaches its supervisor."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiment.run_config import Config
from hotline_machines import cluster
from hotline_machines.cluster import Machine, check_machine, survey_machines
from hotline_machines.errors import MachinesError
from hotline_machines.remote import RemoteMachine
from hotline_machines.supervisor.server import SupervisorSpec
from hotline_machines.survey import SurveyedMachine, survey
from switch_harness.wording import mentions


def a_machine(worker: str = "tls://192.0.2.7:4711", difference_s: float = 0.0, **changes: Any) -> Machine:
    surveyed = SurveyedMachine("beta", {}, {}, (0, 1), uid=0, missing_programs=(), time_ns=0)
    return Machine(worker, {"host": 1}, surveyed._replace(**changes), difference_s, clock_error_s=0.001)


REFUSALS = {
    "no root": (
        a_machine(uid=1000),
        "a worker of dask that root has started, since it builds interfaces, got one of",
    ),
    "no ip": (a_machine(missing_programs=("ethtool",)), "expected the program ethtool on PATH, found none"),
    "a fast clock": (
        a_machine(difference_s=0.022),
        "by at most 0.02 s, got +0.022 s; synchronise them by NTP",
    ),
    "a slow clock": (a_machine(difference_s=-3.5), "got -3.500 s"),
    "the loopback": (a_machine("tcp://127.0.0.1:1"), "by which the other machines reach it, got 127.0.0.1"),
    "IPv6": (a_machine("tcp://[2001:db8::1]:1"), "expected an IPv4 address .* got 2001:db8::1"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_machine_that_cannot_carry_a_run_is_named(name: str) -> None:
    machine, message = REFUSALS[name]
    with pytest.raises(MachinesError, match=f"^beta: .*{message.replace('+', '.')}"):
        check_machine(machine, is_alone=False)


@pytest.mark.parametrize("difference_s", [0.0, 0.0209, -0.0209])
def test_machines_within_the_clock_limit_and_a_lone_loopback_machine_are_accepted(
    difference_s: float,
) -> None:
    check_machine(a_machine(difference_s=difference_s), is_alone=False)
    check_machine(a_machine("tcp://127.0.0.1:1"), is_alone=True)


def test_machines_of_one_name_are_refused_before_the_survey(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A survey takes long, and two workers of one name are mostly on one machine."""
    workers = {f"tls://192.0.2.{number}:1": {"resources": {"host": 1}} for number in (1, 2)}
    names = dict(zip(workers, ("beta", "beta"), strict=True))

    async def identity(n_workers: int) -> dict[str, Any]:
        return {"workers": workers}

    async def on_worker(client: object, worker: str, function: object) -> str:
        assert function is socket.gethostname
        return names[worker]

    monkeypatch.setattr(cluster, "on_worker", on_worker)
    client: Any = SimpleNamespace(scheduler=SimpleNamespace(identity=identity))  # a part of dask's client
    with pytest.raises(MachinesError, match=mentions("beta", *workers, "hostname NAME")):
        asyncio.run(survey_machines(client, Config(machines="tls://192.0.2.3:1")))


def test_a_survey_describes_the_machine_that_runs_the_survey() -> None:
    found = survey()
    assert found.cpus and found.name and set(found.description) >= {"kernel", "cpus", "memory_mb"}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"design": "collect", "optimiser": "adagrad(lr=0.1)"},
        {"recovery": {"journal_sync": "never", "replay_log": True}, "faults": {"loss": 0.01}},
        {"rounds": 3, "loads": [0.3], "data": "log.csv", "columns": "key=a", "rule": "window"},
        {"machines": "tls://h:1", "wiring": {"pins": {"w1": "a"}, "vni": 9}},
    ],
    ids=str,
)
def test_a_configuration_reaches_the_supervisor_unchanged(settings: dict[str, Any], tmp_path: Any) -> None:
    spec = SupervisorSpec(
        config=Config.model_validate(settings), scheduler="tls://h:1", run=tmp_path, generation=1,
        token="t", host="192.0.2.1",
    )  # fmt: skip
    assert SupervisorSpec.model_validate_json(spec.model_dump_json()) == spec


@pytest.mark.parametrize("name", ["runs/20261127-1", 'a "run"', "Läufe/1", "back\\slash"])
@pytest.mark.parametrize("encode", [lambda path: str(path).encode(), lambda path: json.dumps(path).encode()])
def test_a_machine_gets_paths_of_its_own_folder(encode: Callable[[str], bytes], name: str) -> None:
    """In configurations, in commands and in what scripts are told."""
    machine: Any = SimpleNamespace(is_shared=False, _run=Path("/home/me", name), folder=Path("/var/tmp/run"))
    sent = encode(f"/home/me/{name}/parts/ledger.bin")
    assert RemoteMachine.translate(machine, sent) == encode("/var/tmp/run/parts/ledger.bin")
    machine.is_shared = True
    assert RemoteMachine.translate(machine, sent) == sent
