"""BMv2 and softswitch, which get the same P4Runtime messages and the same frames."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from softswitch.compiled import CompiledPipeline
from softswitch.conformance import bmv2
from softswitch.conformance.client import P4RuntimeClient, pipeline_config
from softswitch.conformance.dataplane import Dataplane
from softswitch.conformance.errors import P4RuntimeError
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.messages import adopt, p4i, p4r
from softswitch.p4runtime.status import Refusal
from softswitch.pipeline import LogRecord, Notice, Output
from switch_harness.p4rt_writer import P4RuntimeWriter
from switch_harness.waiting import PATIENCE_S

Exchange = dict[str, dict[int, list[str]]]
"""The frames, in hexadecimal, that leave each port of each switch, by the switch's name."""

STEP_US = 1000
"""softswitch's clock moves by this with every frame."""


@contextmanager
def twins(program: Path, cpu_port: int | None = None) -> Iterator[Twins]:
    """Start twins with a program, given by its path without suffix."""
    with bmv2.running_switch(cpu_port) as (client, ports):
        yield Twins(program, client, ports)


class Twins:
    """A program, named by its path without suffix, on a BMv2 of its own and on softswitch in this process.

    `write` writes to both; `pipeline` is softswitch's, to be looked at.
    """

    def __init__(self, program: Path, client: P4RuntimeClient, ports: Dataplane) -> None:
        config = pipeline_config(program)
        client.set_pipeline(config)
        ports.wait_until_started()
        self._now = 0
        self._client, self._ports, self._p4info = client, ports, config.p4info
        self._ours = ControlledPipeline(config, CompiledPipeline, lambda: self._now)
        self.pipeline = self._ours.pipeline
        self.write = P4RuntimeWriter(self._p4info, self.update)

    def update(self, update: p4r.Update) -> bool:
        """Write to both, which have to do it or refuse it alike; whether they did it.

        Codes are not compared: BMv2's are often UNKNOWN.
        """
        ours, reference = self.refusals(update)
        agree = (ours is None) == (reference is None)
        assert agree, f"softswitch: {ours or 'done'}; BMv2: {reference or 'done'}; {update}"
        return ours is None

    def codes(self, update: p4r.Update) -> tuple[int, int]:
        """Write to both; the codes that softswitch and BMv2 answer, 0 for what was done."""
        ours, reference = self.refusals(update)
        return ours.canonical_code if ours else 0, reference.code if reference else 0

    def refusals(self, update: p4r.Update) -> tuple[Refusal | None, P4RuntimeError | None]:
        """Write to both; what softswitch and BMv2 refuse it with, None for what was done."""
        update = adopt(update)
        (ours,) = self._ours.write(p4r.WriteRequest(updates=[update]))
        try:
            self._client.write(update)
        except P4RuntimeError as error:
            return ours, error
        return ours, None

    def expect(self, port: int, frame: bytes) -> tuple[list[Output], list[Notice]]:
        """What softswitch sends, and notifies the control plane of, because of a frame."""
        self._now += STEP_US
        return self.pipeline.process(port, frame, self._now, self._now), self.pipeline.take_notices()

    def observe(self, port: int, frame: bytes) -> list[Output]:
        """What BMv2 sends because of it, but into the CPU port."""
        return self._ports.process(port, frame)

    def exchange(self, port: int, frame: bytes) -> Exchange:
        """Return what each switch sends out of each port because of a frame.

        BMv2 gets no frame that fails an assertion, which would end it.
        """
        ours, notices = self.expect(port, frame)
        if any(isinstance(notice, LogRecord) and notice.failed for notice in notices):
            return {"softswitch": {}}
        return {"softswitch": by_port(ours), "BMv2": by_port(self.observe(port, frame))}

    def packets_in(self, count: int) -> list[p4r.PacketIn]:
        """The next packets that BMv2 sends to its CPU port."""
        return [self._client.packets.get(timeout=PATIENCE_S) for _ in range(count)]

    def unseen(self) -> int:
        """Return unrequested packets of BMv2 to the CPU port."""
        return self._client.packets.qsize()

    # -- what is read

    def entries(self) -> tuple[list[str], list[str]]:
        """Return every entry of every table, constant ones too, with its counter."""
        queries = []
        for table in self._p4info.tables:
            query = p4r.TableEntry(table_id=table.preamble.id)
            if table.direct_resource_ids:
                query.counter_data.SetInParent()
            queries.append(p4r.Entity(table_entry=query))
        ours, reference = self._read(queries)
        for entity in (*ours, *reference):
            entity.table_entry.is_const = False  # which BMv2 does not say of any
        return sorted(map(str, ours)), sorted(map(str, reference))

    def counters(self) -> tuple[list[str], list[str]]:
        """Return every counter cell and direct counter of softswitch and of BMv2, in the units they count.

        (BMv2 counts packets and bytes always, and PI writes the one and reads both.)
        """
        units = {counter.preamble.id: counter.spec.unit for counter in self._p4info.counters}
        queries = [p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=counter)) for counter in units]
        for direct in self._p4info.direct_counters:
            units[direct.direct_table_id] = direct.spec.unit
            entry = p4r.TableEntry(table_id=direct.direct_table_id, counter_data=p4r.CounterData())
            queries.append(p4r.Entity(table_entry=entry))
        ours, reference = self._read(queries)
        return _comparable(ours, units), _comparable(reference, units)

    def _read(self, queries: list[p4r.Entity]) -> tuple[list[p4r.Entity], list[p4r.Entity]]:
        responses, refusals = self._ours.read(p4r.ReadRequest(entities=queries))
        assert not any(refusals), refusals
        ours = [found for response in responses for found in response.entities]
        return ours, self._client.read(*queries)


def by_port(outputs: Sequence[Output]) -> dict[int, list[str]]:
    ports: dict[int, list[str]] = defaultdict(list)
    for port, data in outputs:
        ports[port].append(data.hex())
    return dict(ports)


def _comparable(entities: list[p4r.Entity], units: dict[int, p4i.CounterSpec.Unit.ValueType]) -> list[str]:
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
