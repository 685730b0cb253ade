"""Packets see a DATAPLANE_ATOMIC batch of any entities at once: between its steps they wait, or see none."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest
from finsy.proto import p4r

from softswitch.compiled import CompiledPipeline
from softswitch.conformance.direct import DirectPipeline
from softswitch.kernel import control as kernel_control
from softswitch.p4runtime.messages import adopt
from softswitch.p4runtime.plain.request import Request
from softswitch.p4runtime.status import Refusal
from switch_harness.dataplane_state import exact
from switch_harness.entity_model import entity
from switch_harness.faults import WRITES
from switch_harness.p4runtime import (
    CONTROL,
    ENTITIES,
    INSERT,
    MODIFY,
    Control,
    controlled,
    forward,
    update,
    write,
)
from switch_harness.p4runtime_draws import STATE
from switch_harness.wording import mentions

ATOMIC, ROLLBACK = p4r.WriteRequest.DATAPLANE_ATOMIC, p4r.WriteRequest.ROLLBACK_ON_ERROR
MODIFIED = ("default", "counter", "meter", "register", "value set")
WILDCARDS = [("counter", (5, 5)), ("meter", (1, 1, 1, 1)), ("register", 79)]
_libc = ctypes.CDLL(None)


def updates() -> list[p4r.Update]:
    """One of each kind of entity, and a write of each whole array."""
    return [
        p4r.Update(
            type=MODIFY if key[0] in MODIFIED or key == ("started", 0x0800) else INSERT,
            entity=entity(key, value),
        )
        for key, value in [*STATE.items(), *(((kind, None), value) for kind, value in WILDCARDS)]
        if key != ("started", 0x0800)  # constant
    ]


def at_each_write(pipeline: Any, look: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Call `look` after each call that writes to the pipeline; return what it returned."""
    seen: list[Any] = []

    def looking(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            result = function(*args)
            seen.append(look())
            return result

        return call

    for subject, _, name in (function.partition(".") for function in WRITES):
        ops = getattr(pipeline, subject)
        monkeypatch.setattr(ops, name, looking(getattr(ops, name)))
    return seen


def is_locked(pipeline: Any) -> bool:
    mutex = ctypes.c_void_p(pipeline._memory.mutex_address)
    if _libc.pthread_mutex_trylock(mutex):
        return True
    _libc.pthread_mutex_unlock(mutex)
    return False


@pytest.mark.parametrize("atomicity", [ATOMIC, ROLLBACK])
def test_the_data_plane_is_locked_out_until_the_end_of_an_atomic_batch(
    atomicity: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = controlled(ENTITIES, CompiledPipeline)
    seen = at_each_write(control.pipeline, lambda: is_locked(control.pipeline), monkeypatch)
    assert not any(write(control, *updates(), atomicity=atomicity))
    assert len(seen) >= len(updates()) - 4 and set(seen) == {atomicity == ATOMIC}
    assert not is_locked(control.pipeline)
    assert int(control.pipeline._memory.waiting[0]) == 0


def test_the_kernel_gets_all_changes_in_one_call(
    kernel_datapath: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = controlled(ENTITIES, DirectPipeline)
    memory = control.pipeline._memory
    arena, calls, run = memory._arena_words, [], memory._run
    before = arena.copy()
    seen = at_each_write(control.pipeline, lambda: (arena == before).all(), monkeypatch)
    batch = updates()

    def counted_run(frame: bytes) -> object:
        calls.append(int(memory._mailbox[0]))  # the number of changes
        return run(frame)

    monkeypatch.setattr(memory, "_run", counted_run)
    assert not any(write(control, *batch, atomicity=ATOMIC))
    assert len(seen) >= len(batch) - 4 and all(seen)
    assert len([changes for changes in calls if changes]) == 1
    assert not (arena == before).all()


def test_a_batch_that_the_kernel_cannot_take_at_once_is_refused(
    kernel_datapath: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also on the fast path of plain entries. Without DATAPLANE_ATOMIC, the kernel takes it in parts."""
    monkeypatch.setattr(kernel_control, "MAX_CHANGES", 40)
    plain = adopt(p4r.WriteRequest(updates=[update(forward(n)) for n in range(20)], atomicity=ATOMIC))
    attempts: list[tuple[Control, Callable[[Control], Any]]] = [
        (controlled(ENTITIES, DirectPipeline), lambda c: write(c, *updates(), atomicity=ATOMIC)),
        (controlled(CONTROL, DirectPipeline), lambda c: c.write(plain)),
        (controlled(CONTROL, DirectPipeline), lambda c: c.write_bytes(Request(plain.SerializeToString()))),
    ]
    for control, attempt in attempts:
        before = exact(control.pipeline)
        with pytest.raises(Refusal, match=mentions("DATAPLANE_ATOMIC", 40)):
            attempt(control)
        assert exact(control.pipeline) == before
    control, _ = attempts[0]
    assert not any(write(control, *updates(), atomicity=ROLLBACK))


@pytest.mark.parametrize(("kind", "value"), WILDCARDS)
@pytest.mark.parametrize("atomicity", p4r.WriteRequest.Atomicity.values())
def test_a_whole_array_is_written_in_one_store_under_the_lock(
    kind: str, value: Any, atomicity: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = controlled(ENTITIES, CompiledPipeline)
    memory, stores = control.pipeline._memory, []
    store = memory.store_cells

    def watched_store(*args: Any) -> None:
        stores.append(is_locked(control.pipeline))
        store(*args)

    monkeypatch.setattr(memory, "store_cells", watched_store)
    change = p4r.Update(type=MODIFY, entity=entity((kind, None), value))
    assert write(control, change, atomicity=atomicity) == [None]
    assert stores == [True]
