"""Fuzz the P4Runtime server: mutated writes and reads, and calls of the pipeline that fail.

After each batch the server is read back, and the data plane's own memory. Updates in the terms of the plain
model have its codes and effects. Any other update may be refused or not; then the data plane must have what
the server says that it has. `python -m tools.fuzz p4runtime` searches with coverage.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from finsy.proto import p4r

from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.loaded_config import LoadedConfig
from softswitch.p4runtime.messages import adopt
from softswitch.p4runtime.plain.request import Request
from softswitch.p4runtime.status import Refusal
from switch_harness.dataplane_state import exact
from switch_harness.entity_dataplane import check_dataplane
from switch_harness.entity_decode import decode, flaws, model_of
from switch_harness.entity_model import P4INFO, EntityModel, entity
from switch_harness.faults import FUNCTIONS, WRITES, Fault, faulty
from switch_harness.p4runtime import DELETE, ENTITIES, INSERT, MODIFY, Clock, Control, start_read
from switch_harness.p4runtime import config as pipeline_config
from switch_harness.p4runtime_draws import EVERYTHING, draw, serialized
from switch_harness.p4runtime_mutation import Mutator

CONTINUE = p4r.WriteRequest.CONTINUE_ON_ERROR
FAULTS = (Fault.BEFORE, Fault.AFTER, Fault.WITHIN)
MAX_UPDATES = 8
_CONFIG = LoadedConfig(adopt(pipeline_config(program=ENTITIES)))


class Fuzzer:
    """One server with its pipeline, and the model of both; a failed check raises AssertionError."""

    def __init__(self, make: Any, random: Random) -> None:
        self._make, self._random = make, random
        self._recent: list[p4r.Update] = []
        self.batches = 0
        self.codes: Counter[str] = Counter()
        self.restarts = -1
        self._restart()

    def _restart(self) -> None:
        self.restarts += 1
        self.control: Control = ControlledPipeline(_CONFIG, self._make, Clock())
        self.model = EntityModel()

    def run_batch(self) -> None:
        random = self._random
        after = EntityModel(self.model.state)
        updates = [self._draw_update(after) for _ in range(random.randrange(1, MAX_UPDATES))]
        self._recent = [*updates, *self._recent][: 4 * MAX_UPDATES]
        atomicity = random.choice(p4r.WriteRequest.Atomicity.values())
        fault, fails_at = random.choice(FAULTS), random.randrange(1, 9) if random.random() < 0.4 else 0
        functions = FUNCTIONS if random.random() < 0.2 else WRITES
        if fault is Fault.WITHIN and not hasattr(self.control.pipeline, "_memory"):
            fault = Fault.BEFORE
        before = exact(self.control.pipeline) if atomicity != CONTINUE else []
        with faulty(self.control.pipeline, fault, fails_at, functions) as calls:
            codes = self._write(updates, atomicity)
        self._check_batch(updates, atomicity, codes, calls.has_failed)
        if atomicity != CONTINUE and codes != ["OK"] * len(codes):
            assert exact(self.control.pipeline) == before
        if random.random() < 0.2:
            self._read_mutated()
        self.batches += 1
        self.codes.update(codes)

    def _draw_update(self, after: EntityModel) -> p4r.Update:
        """Draw an update; more often than not one that succeeds after the batch's previous ones."""
        random = self._random
        for _ in range(random.choice((1, 8))):
            update, kind, key, value, wrong = draw(random)
            if wrong is None and after.do(kind, key, value) == "OK":
                break
        if random.random() < 0.08:
            Mutator(random, [*self._recent, update]).mutate(update)
        return update

    def _write(self, updates: list[p4r.Update], atomicity: int) -> list[str]:
        request = p4r.WriteRequest(updates=updates)
        request.atomicity = atomicity  # type: ignore[assignment]  # an enum's value
        if self._random.random() < 0.5:
            results = self.control.write_bytes(Request(request.SerializeToString()))
        else:
            results = self.control.write(adopt(request))
        return [result.code.name if result else "OK" for result in results]

    # -- checks

    def _check_batch(
        self, updates: list[p4r.Update], atomicity: int, codes: list[str], has_failed: bool
    ) -> None:
        assert len(codes) == len(updates)
        assert has_failed or "INTERNAL" not in codes, codes
        after, is_known = EntityModel(self.model.state), True
        for update, code in zip(updates, codes, strict=True):
            if not is_known:
                break
            is_known = _predict(after, update, code, atomicity)
        if atomicity != CONTINUE and codes != ["OK"] * len(codes):
            assert "OK" not in codes
            is_known = True
        else:
            self.model = after
        entities = self._read_all()
        if is_known:
            found, wanted = serialized(entities), serialized([entity(*i) for i in self.model.state.items()])
            assert found == wanted, (set(found) ^ set(wanted), updates, codes)
        check_dataplane(self.control.pipeline, entities, P4INFO)
        if not is_known:
            if (model := model_of(entities)) is None:
                self._restart()
            else:
                self.model = model

    def _read_all(self) -> list[p4r.Entity]:
        responses, results = start_read(self.control, *EVERYTHING)
        assert not any(results)
        return [entity for response in responses for entity in response.entities]

    def _read_mutated(self) -> None:
        query = p4r.Entity()
        query.CopyFrom(self._random.choice([*EVERYTHING, *(update.entity for update in self._recent)]))
        Mutator(self._random, self._recent).mutate(query)
        responses, results = start_read(self.control, query)
        assert all(result is None or isinstance(result, Refusal) for result in results)
        assert results != [None] or all(len(response.entities) for response in responses)


def _predict(after: EntityModel, update: p4r.Update, code: str, atomicity: int) -> bool:
    """Do an update on the model, and check its code; return whether the model still is what there is."""
    if code == "INTERNAL":
        return atomicity == CONTINUE  # otherwise its check failed, or that of a later update, or all of them
    decoded = decode(update.entity) if update.type in (INSERT, MODIFY, DELETE) else None
    if decoded is None:
        return code not in ("OK", "ABORTED")
    wrong = flaws(update.type, *decoded)
    allowed = {EntityModel(after.state).do(update.type, *decoded), *wrong} - ({"OK"} if wrong else set())
    assert code in allowed or (code == "ABORTED" and allowed == {"OK"}), (update, code, allowed)
    if not wrong:
        after.do(update.type, *decoded)
    return True
