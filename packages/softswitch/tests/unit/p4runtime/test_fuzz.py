"""Seeded random writes of every entity kind, good and malformed: codes, and what is there afterwards."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from finsy.proto import p4r

from softswitch.compiled import CompiledPipeline
from softswitch.interpreter import InterpretedPipeline
from softswitch.pipeline import ActionCall, UseGroup
from switch_harness.effort import seeds
from switch_harness.entity_model import EntityModel, entity
from switch_harness.model_pipeline import ModelPipeline
from switch_harness.p4runtime import ENTITIES, Control, controlled, read, write
from switch_harness.p4runtime_draws import EVERYTHING, draw, expected, serialized


def check_state(control: Control, model: EntityModel) -> None:
    assert serialized(read(control, *EVERYTHING)) == serialized(
        [entity(*item) for item in model.state.items()]
    )


def check_pipeline(pipeline: ModelPipeline, model: EntityModel) -> None:
    """The pipeline has what reads are answered with but not from."""
    for key, value in model.state.items():
        match key:
            case ("member nexthops" | "member paths", member) if not model.one_shots():
                profile = pipeline.profile_states[f"Entities.{key[0].split()[1]}"]
                assert profile.members[member] == ActionCall("Entities.forward_to", (value,))
            case ("group", group):
                listed = Counter(pipeline.profile_states["Entities.paths"].groups[group])
                assert listed == Counter(dict(value))
            case ("meter", index):
                assert pipeline.meters["Entities.rates"][index] == value
            case ("value set",):
                assert pipeline.value_sets["EntitiesParser.odd_types"] == [(each,) for each in value]
            case ("multicast", group):
                assert sorted(pipeline.multicast[group]) == sorted(value)
            case ("clone", session):
                copies, length = pipeline.clones[session]
                assert (sorted(copies), length) == (sorted(value[1]), value[0])
            case ("default", "started"):
                changed = pipeline.defaults["Entities.started"]
                assert changed is None or isinstance(changed, ActionCall)
                assert changed is None or changed.name.removeprefix("Entities.") == value
    metered = {key[1:]: value.meter for key, value in model.state.items() if key[0] == "metered"}
    in_use: dict[Any, Any] = {}
    for entry, config in pipeline.entry_meters.items():
        match = entry.key[0]
        assert isinstance(match, tuple)
        in_use[(*match, entry.priority)] = config
    assert in_use == {key: meter for key, meter in metered.items() if meter is not None}
    check_one_shots(pipeline, model)


def check_one_shots(pipeline: ModelPipeline, model: EntityModel) -> None:
    paths = pipeline.profile_states["Entities.paths"]
    made = [
        Counter(paths.members[member].args[0] for member in paths.groups[entry.action.group])
        for entry in pipeline.entries["Entities.balanced"].values()
        if isinstance(entry.action, UseGroup) and model.one_shots()
    ]
    wanted = [Counter[int]() for _ in model.one_shots()]
    for ports, shot in zip(wanted, model.one_shots(), strict=True):
        for port, weight in shot.members:
            ports[port] += weight
    assert sorted(made, key=repr) == sorted(wanted, key=repr)
    manual = {key[1] for key in model.state if key[0] == "member paths"}
    assert len(paths.members) == len(manual) + sum(len(shot.members) for shot in model.one_shots())


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("make", [ModelPipeline, InterpretedPipeline, CompiledPipeline])
def test_random_writes_of_every_entity_kind_equal_the_model(make: Any, seed: int) -> None:
    random = Random(seed)
    control, model = controlled(ENTITIES, make), EntityModel()
    check_state(control, model)
    for _ in range(150 if make is ModelPipeline else 40):
        batch = [draw(random) for _ in range(random.randrange(1, 8))]
        atomicity = random.choices(p4r.WriteRequest.Atomicity.values(), [4, 1, 1])[0]
        allowed = expected(model, batch, atomicity)
        results = write(control, *(update for update, *_ in batch), atomicity=atomicity)
        codes = [result.code.name if result else "OK" for result in results]
        wrong = [
            (code, may, update)
            for code, may, (update, *_) in zip(codes, allowed, batch, strict=True)
            if code not in may
        ]
        assert not wrong
        check_state(control, model)
        if isinstance(control.pipeline, ModelPipeline):
            check_pipeline(control.pipeline, model)
