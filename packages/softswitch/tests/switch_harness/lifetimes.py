"""Random histories of pipeline configs and reads, in which a pipeline that is replaced is freed at once."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any

from finsy.proto import p4r

from softswitch.errors import SwitchError
from softswitch.ir import Program
from softswitch.p4runtime.messages import adopt
from softswitch.p4runtime.messages import p4r as switch_p4r
from softswitch.p4runtime.pipelines import Pipelines
from softswitch.p4runtime.reconcile import ENTITIES as ALL_ENTITIES
from softswitch.runtime.no_ports import NoPorts
from switch_harness.p4runtime import CONTROL, DELETE, ENTITIES, INSERT, config, forward, update

_ACTIONS = ("VERIFY", "VERIFY_AND_SAVE", "VERIFY_AND_COMMIT", "COMMIT", "RECONCILE_AND_COMMIT")
_BARE = CONTROL.with_suffix(".json").read_bytes()
ALL_KINDS = switch_p4r.ReadRequest(entities=ALL_ENTITIES)
_UNKNOWN_TABLE = p4r.Entity(table_entry=p4r.TableEntry(table_id=77))


@contextmanager
def without_collector() -> Iterator[None]:
    """Run the block without the cycle collector: what is in a reference cycle stays."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Reader:
    """A read that has begun and will end later."""

    def __init__(self, control: Any) -> None:
        self._expected = _entities(control.read(ALL_KINDS)[0])
        self._responses, results = control.read(ALL_KINDS)
        assert not any(results)

    def end(self) -> None:
        assert _entities(self._responses) == self._expected


def _entities(responses: Iterator[Any]) -> list[bytes]:
    return [entity.SerializeToString() for response in responses for entity in response.entities]


class History:
    """Pipelines of `make` that configs replace while answers to reads are consumed."""

    def __init__(self, make: Callable[[Program], Any], random: Random) -> None:
        self._make, self._random = make, random
        self._made: list[weakref.ref[Any]] = []
        self._readers: list[_Reader] = []
        self._ports = NoPorts()
        self.pipelines = Pipelines[Any](self._ports, self._make_tracked, lambda _: None)

    def _make_tracked(self, program: Program) -> Any:
        pipeline = self._make(program)
        self._made.append(weakref.ref(pipeline))
        return pipeline

    def alive(self) -> list[Any]:
        """Return the pipelines that are not freed."""
        return [pipeline for made in self._made if (pipeline := made()) is not None]

    def in_use(self) -> set[Any]:
        slots = self.pipelines
        controls = (slots.saved, slots.running, slots.bare, slots.prepared)
        return {control.pipeline for control in controls if control is not None}

    def run(self, steps: int, check: Callable[[int], None] = lambda _: None) -> None:
        """Take random steps; after each, `check` gets the number of pipelines in use."""
        operations = (self._set_config, self._use_bare, self._write, self._read, self._change_port)
        for _ in range(steps):
            with suppress(SwitchError):
                self._random.choices(operations, (6, 2, 3, 4, 1))[0]()
            assert set(self.alive()) == self.in_use()
            check(len(self.in_use()))
        while self._readers:
            self._readers.pop().end()
        self.pipelines.close()
        self._ports.close()
        assert not self.alive()
        check(0)

    def _set_config(self) -> None:
        request = p4r.SetForwardingPipelineConfigRequest()
        request.action = request.Action.Value(self._random.choice(_ACTIONS))
        if request.action != request.COMMIT:
            program = self._random.choice((CONTROL, ENTITIES))
            request.config.CopyFrom(config(self._random.randrange(3), program))
        if self._random.random() < 0.2:
            request.config.p4_device_config = b"{}"
        self.pipelines.set(adopt(request))

    def _use_bare(self) -> None:
        if self.pipelines.prepared is None:
            self.pipelines.prepare_bare(_BARE)
        else:
            self._random.choice((self.pipelines.discard_prepared, self.pipelines.run_prepared))()

    def _write(self) -> None:
        """Write a batch of which some updates may be refused."""
        kinds = self._random.choices((INSERT, DELETE), k=3)
        updates = [update(forward(self._random.randrange(4)), kind) for kind in kinds]
        updates.append(p4r.Update(type=INSERT, entity=_UNKNOWN_TABLE))
        atomicity = self._random.choice(p4r.WriteRequest.Atomicity.values())
        self.pipelines.get_served().write(
            adopt(p4r.WriteRequest(updates=updates[: self._random.randint(1, 4)], atomicity=atomicity))
        )

    def _read(self) -> None:
        if self._readers and self._random.random() < 0.5:
            self._readers.pop(self._random.randrange(len(self._readers))).end()
            return
        control = self.pipelines.get_served()
        control.read(adopt(p4r.ReadRequest(entities=[_UNKNOWN_TABLE])))  # is refused
        self._readers.append(_Reader(control))

    def _change_port(self) -> None:
        self.pipelines.set_port_status(1, self._random.random() < 0.5)
