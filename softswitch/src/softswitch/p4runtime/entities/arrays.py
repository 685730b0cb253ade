"""Base of counters, meters and registers: cells by array ID and index, with wildcards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from grpc import StatusCode

from softswitch.p4runtime.batch import MODIFY
from softswitch.p4runtime.codecs.translation import Translation
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.status import Refusal, find_by_id, invalid
from softswitch.pipeline import ControlPlane

CHUNK = 1024  # cells read from the pipeline at a time
CellEntry = p4r.CounterEntry | p4r.MeterEntry | p4r.RegisterEntry


class SizedArray(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int: ...

    @property
    def index_translation(self) -> Translation | None: ...


A = TypeVar("A", bound=SizedArray)
V = TypeVar("V")


class Arrays(Generic[A]):
    def __init__(self, kind: str, arrays: Mapping[int, A], pipeline: ControlPlane) -> None:
        self._kind = kind
        self._arrays = arrays
        self._pipeline = pipeline

    def _check_write(self, update_type: int, array_id: int, message: CellEntry) -> tuple[A, range]:
        array = self._array(array_id)
        if update_type != MODIFY:
            raise invalid(f"{self._kind} {array.name} can only be modified")
        return array, self._indices(array, message)

    def _chunks(self, array_id: int, message: CellEntry) -> list[tuple[A, int, int]]:
        """Return the cells that a query selects, as (array, start, stop) of at most CHUNK cells."""
        if not array_id and message.HasField("index"):
            raise invalid(f"an index is given without a {self._kind} ID")
        arrays = [self._array(array_id)] if array_id else self._arrays.values()
        return [
            (array, start, min(start + CHUNK, indices.stop))
            for array in arrays
            for indices in [self._indices(array, message)]
            for start in indices[::CHUNK]
        ]

    def _array(self, array_id: int) -> A:
        return find_by_id(self._arrays, array_id, self._kind)

    def _indices(self, array: A, message: CellEntry) -> range:
        if not message.HasField("index"):
            return range(array.size)
        index, location = message.index.index, f"{self._kind} {array.name}"
        if index < 0:
            raise invalid(f"{location}: index {index} is negative")
        if array.index_translation is not None:
            index = array.index_translation.cell_index(index, location)
        if index >= array.size:
            raise Refusal(
                StatusCode.OUT_OF_RANGE,
                f"{location}: index {index} is beyond the last, {array.size - 1}",
            )
        return range(index, index + 1)

    def _with_controller_index(self, array: A, start: int, values: Iterable[V]) -> Iterator[tuple[int, V]]:
        """Yield (index, value) of cells from `start` on, in controllers' indices; skip cells without one."""
        for cell, value in enumerate(values, start):
            index = (
                cell if array.index_translation is None else array.index_translation.controller_index(cell)
            )
            if index is not None:
                yield index, value
