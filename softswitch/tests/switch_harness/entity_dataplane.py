"""What the data plane of `entities.p4` has, by the plain model of its entities."""

from __future__ import annotations

from typing import Any

from softswitch.ir import Masked
from softswitch.pipeline import ActionCall, Pipeline, Replica
from switch_harness.dataplane_state import Buckets, Stored, stored
from switch_harness.entity_model import CELLS, EntityModel, Key, Metered, OneShot

PATHS = "Entities.paths"
ACTIONS = {"NoAction": "NoAction", "drop": "Entities.drop", "learn": "Entities.learn"}
_US_PER_S = 1e6


def check_dataplane(pipeline: Pipeline, model: EntityModel) -> None:
    found, wanted = normalized(stored(pipeline), model), normalized(expected(model), model)
    assert found == wanted, difference(found, wanted)


def difference(found: Stored, wanted: Stored) -> str:
    keys = [key for key in {**found, **wanted} if found.get(key) != wanted.get(key)]
    return "; ".join(f"{key}: {found.get(key)}, not {wanted.get(key)}" for key in keys)


def normalized(state: Stored, model: EntityModel) -> Stored:
    """Sort what has an order of the server's (`test_p4runtime_selection`), and numbers of one-shots."""
    result: Stored = {}
    one_shot_calls, one_shot_groups = [], []
    for key, value in state.items():
        match key:
            case ("default", name) if name.startswith("tbl_"):
                pass  # p4c made the table, which P4Info lacks
            case ("member", profile, _) if profile == PATHS and model.one_shots():
                one_shot_calls.append(value)
            case ("group", profile, _) if profile == PATHS and model.one_shots():
                one_shot_groups.append(len(value))
            case ("group", *_) | ("multicast", _):
                result[key] = sorted(value)
            case ("clone", _):
                result[key] = sorted(value[0]), value[1]
            case ("entry", *_):
                result[key] = sorted(value[0]), *value[1:]
            case _:
                result[key] = value
    if model.one_shots():
        result["one-shots",] = sorted(one_shot_calls), sorted(one_shot_groups)
    return result


def expected(model: EntityModel) -> Stored:
    state = model.state
    result: Stored = {
        ("default", "Entities.routed"): None,
        ("default", "Entities.balanced"): None,
        ("counter", "Entities.counts"): [state["counter", i] for i in range(CELLS)],
        ("register", "Entities.cells"): [state["register", i] for i in range(CELLS)],
        ("meter", "Entities.rates"): [buckets(state["meter", i]) for i in range(CELLS)],
    }
    for key, value in state.items():
        match key:
            case ("counter" | "register" | "meter" | "digest", *_):
                pass
            case ("value set",):
                result["value set", "EntitiesParser.odd_types"] = list(value)
            case ("default", table):
                result["default", f"Entities.{table}"] = ActionCall(ACTIONS[value])
            case ("member nexthops" | "member paths", member):
                result["member", f"Entities.{key[0].split()[1]}", member] = forward(value)
            case ("group", group):
                result["group", PATHS, group] = [m for m, weight in value for _ in range(weight)]
            case ("multicast", group):
                if value:
                    result[key] = [Replica(*pair) for pair in value]
            case ("clone", _):
                if any(value):
                    result[key] = [Replica(*pair) for pair in value[1]], value[0]
            case (table, *match):
                entry = "entry", f"Entities.{table}", *entry_key(table, match)
                result[entry] = entry_state(model, table, value)
    if model.one_shots():
        for number, shot in enumerate(model.one_shots()):
            result["group", PATHS, number] = [port for port, weight in shot.members for _ in range(weight)]
            for index, (port, _) in enumerate(shot.members):
                result["member", PATHS, (number, index)] = forward(port)
    return result


def forward(port: int) -> ActionCall:
    return ActionCall("Entities.forward_to", (port,))


def buckets(config: tuple[int, int, int, int] | None) -> Buckets:
    if config is None:
        return ()
    cir, cburst, pir, pburst = config
    return (pir / _US_PER_S, pburst), (cir / _US_PER_S, cburst)


def entry_key(table: str, match: Any) -> tuple[Any, int]:
    match table, match:
        case "balanced", (value, length):
            return (Masked(value, (1 << 48) - (1 << 48 - length)),), 0
        case "metered", (value, mask, priority):
            return (Masked(value, mask),), priority
    return tuple(match), 0


def entry_state(model: EntityModel, table: str, value: Any) -> tuple[Any, ...]:
    calls: list[ActionCall]
    match value:
        case Metered(port, counter, meter):
            return [ActionCall("Entities.forward_metered", (port,))], counter, buckets(meter)
        case OneShot(members):
            calls = [forward(port) for port, weight in members for _ in range(weight)]
        case "member", member:
            key: Key = (f"member {'nexthops' if table == 'routed' else 'paths'}", member)
            calls = [forward(model.state[key])]
        case "group", group:
            weights = model.state["group", group]
            calls = [forward(model.state["member paths", m]) for m, weight in weights for _ in range(weight)]
        case "learn", *_:
            calls = [ActionCall("Entities.learn")]
        case _:
            calls = [ActionCall(ACTIONS[value])]
    return calls, (0, 0), ()
