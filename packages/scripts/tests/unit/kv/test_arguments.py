"""Each argument of each public call of a worker, with each kind of wrong value: one error, nothing pushed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import hotline
from hotline_scripts.kv.calls import InvalidArgument
from hotline_scripts.kv.worker import Worker
from tests.harness.loopback import RunningRendezvous, running_rendezvous
from tests.harness.wrong_arguments import F32, KINDS, Hostile, is_named, masked, refusal

TABLES = {"rows": (4, 1), "wide": (4, 2), "unset": (2, 1)}

ARGUMENTS: dict[str, Callable[[], dict[str, Any]]] = {
    "init": lambda: {"values": np.zeros(2, F32), "table": "unset"},
    "push": lambda: {"keys": [0, 1], "values": np.zeros(2, F32), "table": "rows", "callback": None},
    "pull": lambda: {"keys": [0, 1], "out": np.zeros(2, F32), "table": "rows", "callback": None},
    "push_pull": lambda: {**ARGUMENTS["push"](), "out": np.zeros(2, F32)},
    "wait": lambda: {"ts": 0},
    "report": lambda: {"loss": 1.0, "accuracy": 1.0},
    "read": lambda: {"table": "rows"},
    "save": lambda: {"path": "model.npz"},
    "load": lambda: {"path": "model.npz"},
    "parameters": lambda: {"keys": [0, 1], "table": "rows"},
    "barrier": lambda: {},
    "close": lambda: {},
}  # fmt: skip
"""Valid arguments of each public call; `end` and `abandon` are the process's."""

_KEYS = {
    "list", "range", "empty list", "empty array", "int64 array", "frozen int64", "strided int64",
    "big-endian int64",
}  # fmt: skip
_FLOATS = {"float32 array", "frozen float32", "strided float32", "array of shape (2, 1)"}
VALID: dict[str, set[str]] = {
    "keys": _KEYS,
    "values": _FLOATS,
    "out": (_FLOATS | {"NaN array", "inf array"}) - {"frozen float32"},
    "callback": {"None", "function", "class"},
    "loss": {"negative", "zero", "huge", "fraction", "array without dimensions"},
    "accuracy": {"negative", "zero", "huge", "fraction", "array without dimensions"},
    "table": set(),
    "ts": {"zero"},
    "path": {"text", "text of a number"},  # to write
}
"""Kinds that are valid for an argument. Fewer keys than values are an error of the values."""


class Rig(NamedTuple):
    running: RunningRendezvous
    kv: Worker


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with (
        running_rendezvous(tmp_path_factory.mktemp("up"), size=1) as running,
        hotline.Worker(TABLES, scale=1.0, connect=running.place) as kv,
    ):
        kv.wait(kv.push([0], np.ones(1, F32), "rows"))
        yield Rig(running, kv)


def state_of(rig: Rig) -> tuple[object, ...]:
    """Return what a call that raises must not have changed."""
    engine = rig.kv._open_engine
    submitted = (engine._submitted_count, engine._values_submitted)
    return (*submitted, dict(rig.kv._steps), dict(rig.kv.saturated), set(rig.kv._written_tables))


def is_valid(call: str, argument: str, kind: str) -> bool:
    if kind in ("empty list", "empty array") and argument == "keys":
        return call == "parameters"
    if (call, argument) == ("load", "path"):
        return False
    return kind in VALID[argument]


def test_all_public_calls_and_their_parameters_are_tried() -> None:
    public = {
        name: set(inspect.signature(function).parameters) - {"self", "other_metrics"}
        for name, function in inspect.getmembers(Worker, inspect.isfunction)
        if not name.startswith("_") and name not in ("end", "abandon")
    }
    assert {name: set(valid()) - {"accuracy"} for name, valid in ARGUMENTS.items()} == public


CASES = [(call, name) for call, valid in ARGUMENTS.items() for name in valid()]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("call", "argument"), CASES)
def test_a_wrong_argument_is_named_with_its_value_and_nothing_is_pushed(
    rig: Rig, call: str, argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for kind, value in KINDS.items():
        wrong, before, reports = value(), state_of(rig), len(rig.running.reports)
        arguments = {**ARGUMENTS[call](), argument: wrong}
        if is_valid(call, argument, kind):
            if call != "init":  # which may set the table only once
                getattr(rig.kv, call)(**arguments)
            rig.kv.barrier()  # reports have arrived
            continue
        message = refusal(lambda: getattr(rig.kv, call)(**arguments), kind)  # noqa: B023
        blamed, blamed_value = argument, wrong
        if argument == "keys" and kind in ("empty list", "empty array"):  # valid, but the values are too many
            blamed, blamed_value = ("out" if call == "pull" else "values"), np.zeros(2, F32)
        assert blamed in message and is_named(message, blamed_value), (kind, message)
        assert state_of(rig) == before and len(rig.running.reports) == reports, kind
    assert rig.kv.read("rows").ravel().tolist() == [1.0, 0.0, 0.0, 0.0]


def test_masked_values_are_refused_in_every_place(rig: Rig) -> None:
    """Their keys would be pushed although they are masked."""
    keys, values = masked(0, 1, dtype=np.int64), masked(0, 1, dtype=F32)
    for call in (
        lambda: rig.kv.push(keys, np.zeros(2, F32), "rows"),
        lambda: rig.kv.push([0, 1], values, "rows"),
        lambda: rig.kv.pull([0, 1], values, "rows"),
        lambda: rig.kv.init(values, "unset"),
        lambda: rig.kv.parameters(keys, "rows"),
    ):
        with pytest.raises(InvalidArgument, match="masked array"):
            call()


def test_a_hostile_object_fails_every_conversion() -> None:
    for conversion in (float, int, repr, len, list, np.asarray, hash):
        with pytest.raises((RuntimeError, TypeError)):
            conversion(Hostile())
