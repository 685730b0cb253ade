"""Whatever a step of a batch raises, the batch is undone as a whole: in the server and in the data plane.

Each call that a batch of all kinds of entities makes of its pipeline fails in turn.
"""

from __future__ import annotations

import logging
from itertools import product
from typing import Any

import pytest
from finsy.proto import p4r

from softswitch.compiled import CompiledPipeline
from softswitch.conformance import direct
from softswitch.conformance.direct import DirectPipeline
from softswitch.interpreter import InterpretedPipeline
from switch_harness.dataplane_state import exact
from switch_harness.entity_dataplane import check_dataplane
from switch_harness.entity_model import P4INFO, EntityModel, Key, Metered, OneShot, entity
from switch_harness.faults import Fault, faulty
from switch_harness.kernel import without_packets
from switch_harness.p4runtime import (
    DELETE,
    ENTITIES,
    INSERT,
    MODIFY,
    Control,
    controlled,
    read,
    write,
)
from switch_harness.p4runtime_draws import EVERYTHING, STATE, serialized

CONTINUE = p4r.WriteRequest.CONTINUE_ON_ERROR
Change = tuple[int, Key, Any]
MODIFIED: list[Change] = [
    (MODIFY, ("member nexthops", 1), 15),
    (MODIFY, ("member paths", 4), 16),
    (MODIFY, ("group", 2), ((3, 1), (4, 3))),
    (MODIFY, ("routed", 1), ("member", 1)),
    (MODIFY, ("balanced", 5, 48), ("member", 3)),
    (MODIFY, ("metered", 0x1100, 0xFF00, 3), Metered(8, (5, 6), None)),
    (MODIFY, ("seen", 1), ("learn", 0, b"other")),
    (MODIFY, ("default", "started"), None),
    (MODIFY, ("direct counter", 0x1100, 0xFF00, 3), (7, 8)),
    (MODIFY, ("direct meter", 0x1100, 0xFF00, 3), (9, 9, 9, 9)),
    (MODIFY, ("counter", 3), (3, 4)),
    (MODIFY, ("meter", 3), None),
    (MODIFY, ("register", 3), 78),
    (MODIFY, ("counter", None), (5, 5)),
    (MODIFY, ("meter", None), (1, 1, 1, 1)),
    (MODIFY, ("register", None), 79),
    (MODIFY, ("value set",), (1, 2, 3)),
    (MODIFY, ("multicast", 1), ((3, 1),)),
    (MODIFY, ("clone", 5), (0, ((1, 1), (2, 2)))),
    (MODIFY, ("digest",), 3),
]
INSERTED: list[Change] = [
    (INSERT, ("member nexthops", 2), 5),
    (INSERT, ("member paths", 1), 6),
    (INSERT, ("group", 1), ((1, 2), (4, 1))),
    (INSERT, ("routed", 2), ("member", 2)),
    (INSERT, ("balanced", 0, 0), ("group", 1)),
    (INSERT, ("metered", 0, 0, 1), Metered(1, (1, 1), (5, 6, 7, 8))),
    (INSERT, ("seen", 2), ("learn", 10**9, b"")),
    (INSERT, ("multicast", 65535), ((0, 0), (0, 1))),
    (INSERT, ("clone", 32767), (1, ((0, 0),))),
]
DELETED: list[Change] = [
    (DELETE, ("balanced", 5, 48), ("group", 2)),
    (DELETE, ("routed", 1), ("member", 1)),
    (DELETE, ("group", 2), ()),
    (DELETE, ("member paths", 3), 7),
    (DELETE, ("member nexthops", 1), 5),
    (DELETE, ("metered", 0x1100, 0xFF00, 3), Metered(9, None, None)),
    (DELETE, ("seen", 1), ("learn", 0, b"")),
    (DELETE, ("multicast", 1), ()),
    (DELETE, ("clone", 5), (-1, ())),  # what it is found by is its ID alone
    (DELETE, ("digest",), 0),
]
ONE_SHOTS: dict[Key, Any] = {
    ("balanced", 5, 48): OneShot(((1, 2), (3, 1))),
    ("balanced", 0, 0): OneShot(((4, 1),)),
}
OF_ONE_SHOTS: list[Change] = [
    (MODIFY, ("balanced", 5, 48), OneShot(((2, 1),))),
    (DELETE, ("balanced", 0, 0), OneShot(())),
    (INSERT, ("balanced", 1 << 47, 8), OneShot(((1, 3), (1, 1)))),
]
BATCHES: dict[str, tuple[dict[Key, Any], list[Change]]] = {
    "all kinds": (STATE, [*INSERTED, *MODIFIED, *DELETED]),
    "deletions first": (STATE, [*DELETED, *INSERTED]),
    "one-shots": (ONE_SHOTS, OF_ONE_SHOTS),
}


def prepared(make: Any, state: dict[Key, Any]) -> tuple[Control, EntityModel]:
    control, model = controlled(ENTITIES, make), EntityModel()
    for key, value in state.items():
        is_new = key not in model.state
        code = model.do(INSERT if is_new else MODIFY, key, value)
        (refused,) = write(control, message((INSERT if is_new else MODIFY, key, value)))
        assert (code, refused) == ("OK", None)
    check(control, model)
    return control, model


def message(change: Change) -> p4r.Update:
    kind, key, value = change
    return p4r.Update(type=kind, entity=entity(key, value))  # type: ignore[arg-type]  # an enum's value


def check(control: Control, model: EntityModel) -> None:
    entities = [entity(*item) for item in model.state.items()]
    assert serialized(read(control, *EVERYTHING)) == serialized(entities)
    check_dataplane(control.pipeline, entities, P4INFO)


def after(model: EntityModel, changes: list[Change], codes: list[str]) -> EntityModel:
    """Do the changes on a copy of the model, but for those that failed."""
    result = EntityModel(model.state)
    for change, code in zip(changes, codes, strict=True):
        assert code == "INTERNAL" or code == result.do(*change)
    return result


FAULTS = [
    *(
        (make, fault)
        for make in (InterpretedPipeline, CompiledPipeline)
        for fault in (Fault.BEFORE, Fault.AFTER)
    ),
    (CompiledPipeline, Fault.WITHIN),
]
KERNEL_FAULTS = [(DirectPipeline, fault) for fault in Fault]
ATOMICITIES = p4r.WriteRequest.Atomicity.keys()
STRIDES = {"all kinds": 24, "deletions first": 12, "one-shots": 8}
"""Calls from one that fails to the next, by batch; each batch makes more calls."""


def rows(faults: list[tuple[Any, Fault]]) -> list[Any]:
    """Return each fault with each batch and atomicity, and the first call that fails, from 0 on.

    `make test` has one first call of each, which differ: all calls of a batch fail with some fault and some
    atomicity. `make soak` has all. The kernel applies atomic changes in a few calls, so the first one fails.
    """
    found = []
    for (k, ((make, fault), atomicity)), batch in product(enumerate(product(faults, ATOMICITIES)), BATCHES):
        stride = STRIDES[batch]
        fast = 0 if fault is Fault.APPLYING else k * stride // (len(faults) * len(ATOMICITIES))
        for offset in range(stride):
            name = f"{make.__name__}-{fault}-{atomicity}-{batch}-{offset}"
            marks = [] if offset == fast else [pytest.mark.soak]
            found.append(pytest.param(make, fault, atomicity, batch, offset, marks=marks, id=name))
    return found


@pytest.mark.parametrize(("make", "fault", "atomicity", "batch", "offset"), rows(FAULTS))
def test_a_batch_is_undone_whichever_call_fails(
    make: Any, fault: Fault, atomicity: str, batch: str, offset: int, caplog: pytest.LogCaptureFixture
) -> None:
    fail_each_call(make, fault, atomicity, batch, offset, caplog)


@pytest.mark.parametrize(("make", "fault", "atomicity", "batch", "offset"), rows(KERNEL_FAULTS))
def test_a_batch_in_the_kernel_is_undone_whichever_call_fails(
    make: Any,
    fault: Fault,
    atomicity: str,
    batch: str,
    offset: int,
    caplog: pytest.LogCaptureFixture,
    kernel_datapath: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(direct, "build_direct", without_packets(direct.build_direct))
    fail_each_call(make, fault, atomicity, batch, offset, caplog)


def fail_each_call(
    make: Any, fault: Fault, atomicity: str, batch: str, offset: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    state, changes = BATCHES[batch]
    updates, value = [message(change) for change in changes], p4r.WriteRequest.Atomicity.Value(atomicity)
    control, model = prepared(make, state)
    fails_at = offset + 1
    while True:
        before = exact(control.pipeline)
        with faulty(control.pipeline, fault, fails_at) as calls:
            results = write(control, *updates, atomicity=value)
        codes = [result.code.name if result else "OK" for result in results]
        if not calls.has_failed:
            break
        assert "INTERNAL" in codes
        if value == CONTINUE:
            check(control, after(model, changes, codes))
            control, model = prepared(make, state)
        else:
            assert "OK" not in codes
            assert exact(control.pipeline) == before
            check(control, model)
        fails_at += STRIDES[batch]
    assert fails_at > (1 if fault is Fault.APPLYING else len(changes))
    assert set(codes) == {"OK"}
    check(control, after(model, changes, codes))
