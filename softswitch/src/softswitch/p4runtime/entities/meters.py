"""Indexed meters: writes and reads of `MeterEntry` (P4Runtime 1.4 §9.4.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from softswitch.p4runtime.batch import Batch
from softswitch.p4runtime.entities.arrays import Arrays
from softswitch.p4runtime.entities.meter_configs import decode_config, encode_config, refuse_color_counters
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.p4info import MeterInfo
from softswitch.pipeline import ControlPlane, MeterConfig


class MeterEntries(Arrays[MeterInfo]):
    def __init__(self, arrays: Mapping[int, MeterInfo], pipeline: ControlPlane) -> None:
        super().__init__("meter", arrays, pipeline)
        self._configs: dict[tuple[int, int], MeterConfig] = {}

    def write(self, update_type: int, message: p4r.MeterEntry, batch: Batch) -> None:
        array, indices = self._check_write(update_type, message.meter_id, message)
        refuse_color_counters(message)
        config = None
        if message.HasField("config"):
            config = decode_config(message.config, array.type, f"meter {array.name}")
        self.configure(array, indices, config, batch)

    def configure(self, array: MeterInfo, indices: range, config: MeterConfig | None, batch: Batch) -> None:
        for index in indices:
            batch.put(self._configs, (array.id, index), config)

        def step(pipeline: ControlPlane) -> None:
            if len(indices) == array.size:
                pipeline.cells.fill_meter(array.name, config)
                return
            for index in indices:
                pipeline.cells.write_meter(array.name, index, config)

        batch.add(step)

    def config(self, array: MeterInfo, index: int) -> MeterConfig | None:
        return self._configs.get((array.id, index))

    def read(self, query: p4r.MeterEntry) -> Iterator[p4r.Entity]:
        refuse_color_counters(query)
        cells = [
            (array.id, index, cell)
            for array, start, stop in self._chunks(query.meter_id, query)
            for index, cell in self._with_controller_index(array, start, range(start, stop))
        ]
        configs = dict(self._configs)
        return (
            _make_entity(meter_id, index, configs.get((meter_id, cell))) for meter_id, index, cell in cells
        )


def _make_entity(meter_id: int, index: int, config: MeterConfig | None) -> p4r.Entity:
    entity = p4r.Entity()
    message = entity.meter_entry
    message.meter_id, message.index.index = meter_id, index
    if config is not None:
        encode_config(config, message.config)
    return entity
