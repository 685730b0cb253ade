"""BMv2 and softswitch, which get the same P4Runtime messages and the same frames."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import grpc
from finsy.proto import p4i, p4r

from softswitch.compiled import CompiledPipeline
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.pipeline import Notice, Output
from targets.dataplane import Dataplane
from targets.p4runtime import reason_of
from tests.harness.p4rt import Client, load_p4info
from tests.harness.p4rt_writer import P4RuntimeWriter

STEP_US = 1000
"""softswitch's clock moves by this with every frame."""


class Twins:
    """A program, named by its path without suffix, on a BMv2 that has it and on softswitch in this process.

    `write` writes to both; `pipeline` is softswitch's, to be looked at.
    """

    def __init__(self, program: Path, client: Client, ports: Dataplane) -> None:
        self._p4info = load_p4info(program.with_suffix(".p4info.txtpb"))
        config = p4r.ForwardingPipelineConfig(
            p4info=self._p4info, p4_device_config=program.with_suffix(".json").read_bytes()
        )
        self._now = 0
        self._client, self._ports = client, ports
        self._ours = ControlledPipeline(config, CompiledPipeline, lambda: self._now)
        self.pipeline = self._ours.pipeline
        self.write = P4RuntimeWriter(self._p4info, self.update)

    def update(self, update: p4r.Update) -> bool:
        """Write to both, which have to do it or refuse it alike; whether they did it.

        Codes are not compared: BMv2's are often UNKNOWN.
        """
        (refusal,) = self._ours.write(p4r.WriteRequest(updates=[update]))
        theirs = self._their_refusal(update)
        agree = (refusal is None) == (theirs is None)
        assert agree, f"softswitch: {refusal or 'done'}; BMv2: {theirs or 'done'}; {update}"
        return refusal is None

    def _their_refusal(self, update: p4r.Update) -> str | None:
        try:
            self._client.update([update])
        except grpc.RpcError as failure:
            return reason_of(failure)
        return None

    def expect(self, port: int, frame: bytes) -> tuple[list[Output], list[Notice]]:
        """What softswitch sends and tells because of a frame."""
        self._now += STEP_US
        return self.pipeline.process(port, frame, self._now, self._now), self.pipeline.take_notices()

    def observe(self, port: int, frame: bytes) -> list[Output]:
        """What BMv2 sends because of it."""
        return self._ports.process(port, frame)

    # -- counters

    def counters(self) -> tuple[list[str], list[str]]:
        """Every cell and every entry that counts, of softswitch and of BMv2, in what its counter counts.

        (BMv2 counts packets and bytes always, and PI writes the one and reads both.)
        """
        units = {counter.preamble.id: counter.spec.unit for counter in self._p4info.counters}
        queries = [p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=counter)) for counter in units]
        for direct in self._p4info.direct_counters:
            units[direct.direct_table_id] = direct.spec.unit
            entry = p4r.TableEntry(table_id=direct.direct_table_id, counter_data=p4r.CounterData())
            queries.append(p4r.Entity(table_entry=entry))
        responses, refusals = self._ours.read(p4r.ReadRequest(entities=queries))
        ours = [found for response in responses for found in response.entities]
        assert not any(refusals), refusals
        return _comparable(ours, units), _comparable(self._client.read(*queries), units)


def _comparable(found: Iterable[p4r.Entity], units: dict[int, p4i.CounterSpec.Unit.ValueType]) -> list[str]:
    entities = list(found)
    for entity in entities:
        if entity.HasField("table_entry"):
            entity.table_entry.is_const = False  # which BMv2 does not say of any
            counted, data = entity.table_entry.table_id, entity.table_entry.counter_data
        else:
            counted, data = entity.counter_entry.counter_id, entity.counter_entry.data
        if units[counted] == p4i.CounterSpec.PACKETS:
            data.ClearField("byte_count")
        elif units[counted] == p4i.CounterSpec.BYTES:
            data.ClearField("packet_count")
    return sorted(str(entity) for entity in entities)
