"""The parts and operations of a design that each kind of run needs, checked before anything begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple

from controller.controller_ops import check_rows, control_of
from controller.schemas import schema_of
from controller.tables import InitialRow
from experiment.run_config import EPOCH
from foundation.designs.arms import arms_of
from foundation.designs.combination import Combination
from foundation.designs.interface import Arm, Design, SwitchHosts
from foundation.designs.registry import (
    HOW_TO_COMPILE,
    DesignError,
    hint_of_part,
    known_names,
    load_part,
    part_of,
)
from foundation.designs.registry import design as find_design
from foundation.errors import HotlineError
from foundation.protocol.addressing import WORKER_UDP_PORT_BASE
from hosts.compiled_agents import compiled_agents

_MAX_JOB = 0xFFFF - WORKER_UDP_PORT_BASE  # each job of a worker has a UDP port


class RunKind(Enum):
    """A kind of run; its value names it in errors."""

    REAL = "a run"
    SCRIPT = "a run with SCRIPT"
    UP = "`hotline up`"
    SIMULATED = "a simulated run"
    FAULTS = "`hotline faults`"
    RECOVERY = "`hotline recover`"


_ALL = frozenset(RunKind)
_WITH_SWITCH = _ALL - {RunKind.RECOVERY}
_PREPARED = frozenset({RunKind.REAL, RunKind.SCRIPT, RunKind.SIMULATED})
"""Kinds of runs that call the preparation of a design, which profiles."""


class Need(NamedTuple):
    part: str
    """Field of `Design` that names the part."""
    operation: str
    kinds: frozenset[RunKind]
    reason: str
    applies: Callable[[Design], bool] = lambda design: True
    """(design): return whether such a design has the need."""


def _has_values_in_switch(design: Design) -> bool:
    # In lockstep designs the workers hold the model, and the switch only adds.
    is_accounted = design.combination is not Combination.NONE
    return bool(_aggregating_arms(design)) and not design.is_lockstep and is_accounted


def _lacks_values_register(design: Design) -> bool:
    return _has_values_in_switch(design) and design.values_register is None


def _loads_hot_set(design: Design) -> bool:
    return design.has_hot_set and _has_values_in_switch(design)


def _has_compiled_agents(design: Design) -> bool:
    return compiled_agents() is not None  # otherwise agents of Scapy run, which need nothing of a design


_CHECKED_VALUES = "the switch aggregates in arm {arms}, and its values are among those that are checked"
NEEDS = (
    *(
        Need("agents", operation, _ALL, "workers and servers are made of it", _has_compiled_agents)
        for operation in ("client", "server", "store", "core")
    ),
    Need("control", "rows", _WITH_SWITCH, "it fills the tables of the switch"),
    Need(
        "control", "read_values", frozenset({RunKind.REAL, RunKind.SCRIPT}), _CHECKED_VALUES,
        _lacks_values_register,
    ),
    Need(
        "switch_state", "values", frozenset({RunKind.SIMULATED, RunKind.FAULTS}), _CHECKED_VALUES,
        _lacks_values_register,
    ),
    *(
        Need(
            "switch_state", operation, frozenset({RunKind.SIMULATED}),
            "its preparation loads parameters into the switch", _loads_hot_set,
        )
        for operation in ("rows_to_load", "release_to_switch")
    ),
    *(
        Need(
            "switch_state", operation, frozenset({RunKind.FAULTS}),
            "hot sets are loaded and changed while faults are injected", _loads_hot_set,
        )
        for operation in ("is_entry", "is_moving", "rows_to_load", "count_writes", "release_to_switch")
    ),
)  # fmt: skip


def check_design(name: str, kind: RunKind, hosts: SwitchHosts | None = None) -> None:
    """Raise `DesignError` for the first thing that a kind of run needs and a design lacks.

    `name` is the one by which users select the design. With `hosts` its tables' rows are checked, too.
    """
    design = find_design(name)
    for problem in _problems(name, design, kind, hosts):
        raise DesignError(f"design {name}: {problem}")


def lacks_anything(name: str, kind: RunKind) -> str | None:
    """Return the message of `check_design`; None if nothing is missing."""
    try:
        check_design(name, kind)
    except DesignError as error:
        return str(error)
    return None


def _problems(name: str, design: Design, kind: RunKind, hosts: SwitchHosts | None) -> Iterator[str]:
    yield from _problems_of_arms(name, design)
    if kind in _WITH_SWITCH:
        for file in (design.program, design.p4info):
            if not file.is_file():
                yield f"{file} is missing, which {kind.value} loads into the switch; {HOW_TO_COMPILE}"
                return
        yield from _problems_of_registers(design)
    if kind is RunKind.RECOVERY and not design.is_durable:
        yield f"is_durable is False: {kind.value} needs servers that keep a journal"
    if kind is RunKind.FAULTS and design.combination is Combination.NONE:
        yield f"combination {design.combination.value}: {kind.value} has no values to compare"
    for need in NEEDS:
        if kind in need.kinds and need.applies(design) and not _has(design, need):
            reason = need.reason.format(arms=" and ".join(_aggregating_arms(design)))
            reference = part_of(design, need.part) or "None"
            reason += hint_of_part(design, need.part)
            yield f"part {need.part} ({reference}) lacks {need.operation}, which {kind.value} needs: {reason}"
    if design.preparation is not None and kind in _PREPARED:
        if not callable(load_part(design, design.preparation)):
            yield f"part preparation ({design.preparation}): expected a coroutine function"
        if all(arm.is_measured for arm in design.arms):
            yield f"no arm with is_measured=False, in which its preparation, before {kind.value}, profiles"
    try:
        if (agents := compiled_agents()) is not None:
            agents.check(design)
        if hosts is not None and kind in _WITH_SWITCH:
            # A simulated arm has a switch of its own, and so has that of `hotline up`.
            shares_switch = kind in (RunKind.REAL, RunKind.SCRIPT)
            for arms in [design.arms] if shares_switch else [(arm,) for arm in design.arms]:
                check_rows(design, _rows(design, hosts, arms))
    except HotlineError as error:
        yield str(error)


def _problems_of_registers(design: Design) -> Iterator[str]:
    known_names = [register.name for register in schema_of(design).registers]
    for name in filter(None, (design.values_register, *(each.name for each in design.registers))):
        if name not in known_names:
            names = ", ".join(known_names) or "none"
            yield f"{design.program.name}: expected a register ({names}), got {name!r}"


def check_values_register(name: str, values: int) -> None:
    """Raise `DesignError` if the register with a design's values has fewer cells than a model's values."""
    checked = find_design(name)
    for register in schema_of(checked).registers if checked.values_register else ():
        if register.name == checked.values_register and register.size < values:
            raise DesignError(
                f"design {name}: register {register.name} has {register.size:,} cells, and the model "
                f"{values:,} values; expected at most as many, by `parameters` of [workload] or by the data"
            )


def _rows(design: Design, hosts: SwitchHosts, arms: Sequence[Arm]) -> list[InitialRow]:
    try:
        return control_of(design).rows(hosts, arms, EPOCH)
    except HotlineError:
        raise
    except Exception as error:  # the code of a design in the making raises anything
        reason = f"{type(error).__name__}: {error}"
        raise DesignError(f"part control ({design.control}): rows raises {reason}") from error


def _problems_of_arms(name: str, design: Design) -> Iterator[str]:
    measured_names = {arm.name for arm in design.arms if arm.is_measured}
    if all(arm.reference is not None for arm in design.arms if arm.is_measured):
        yield "expected a measured arm without a reference, which other arms are compared with, got none"
    for arm in design.arms:
        if arm.design != name:
            yield f"arm {arm.name}: expected design={name!r}, by which it is selected, got {arm.design!r}"
        if arm.reference is not None and arm.reference not in measured_names:
            yield f"arm {arm.name}: expected a measured arm as its reference, got {arm.reference!r}"
        if not 0 <= arm.job <= _MAX_JOB:
            yield f"arm {arm.name}: expected a job from 0 to {_MAX_JOB}, got {arm.job}"
        for field in ("aggregates", "proxies"):
            if not isinstance(getattr(arm.settings, field, None), bool):
                yield f"arm {arm.name}: settings without {field}, expected True or False"
    others = [arm for other in known_names() if other != name for arm in arms_of(other)]
    for arm in design.arms:
        for other in others:
            if arm.name == other.name:
                yield f"arm {arm.name}: expected a name that no other arm has, but {other.design} has it"
            if arm.job == other.job:
                yield (
                    f"arm {arm.name}: expected a job that no other arm has, got {arm.job}, which is "
                    f"that of arm {other.name} of {other.design}"
                )
        others.append(arm)


def _has(design: Design, need: Need) -> bool:
    reference = part_of(design, need.part)
    if reference is None:
        return False
    part: Any = load_part(design, reference)  # of any class, as a mistyped name may be anything
    operation = getattr(part, need.operation, None)
    # `SwitchStateOps` has operations for a switch without state instead of None.
    without_state = getattr(part, "_field_defaults", {}).get(need.operation)
    return operation is not None and operation is not without_state


def _aggregating_arms(design: Design) -> list[str]:
    return [arm.name for arm in design.arms if arm.settings.aggregates]
