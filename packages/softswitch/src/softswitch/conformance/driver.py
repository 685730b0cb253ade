"""Execution of STF statements on a target, in order; each packet is completed before the next statement."""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Sequence

from softswitch.conformance import statements as stf
from softswitch.conformance.errors import ConformanceError, Mismatch, StfError, Unsupported
from softswitch.conformance.expectation import check_outputs
from softswitch.conformance.names import StfNames
from softswitch.conformance.replication import CliReplication
from softswitch.conformance.target import ConformanceTarget
from softswitch.errors import SwitchError
from softswitch.messages import pluralize
from softswitch.pipeline import Change, CounterValue, EntryKey, EntryWrite, MeterConfig, Output

_LOG = logging.getLogger("conformance")
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
}
MICROSECONDS_PER_SECOND = 1_000_000
_ROUNDING_ERROR = 1e-6  # of a decimal rate times this number


class StfDriver:
    def __init__(self, target: ConformanceTarget, names: StfNames) -> None:
        self._target = target
        self._names = names
        self._replication = CliReplication(target)
        self._added_entries: list[EntryWrite] = []
        self._handles: dict[str, EntryWrite] = {}
        self._meter_configs: dict[tuple[str, int], MeterConfig] = {}
        self._outputs: list[Output] = []
        self._now = 0  # µs; a packet arrives 1 µs after the one before

    def run(self, vectors: Sequence[stf.NumberedStatement]) -> None:
        for number, statement in vectors:
            try:
                self._execute(statement)
            except (ConformanceError, Unsupported) as error:
                raise type(error)(f"line {number}: {error}") from error
            except SwitchError as error:
                raise Mismatch(f"line {number}: {error}") from error
        check_outputs(vectors, self._outputs)

    def _execute(self, statement: stf.Statement) -> None:
        match statement:
            case stf.StfPacket(port, data):
                self._outputs += self._target.process(port, data, self._now, self._now)
                self._now += 1
            case stf.Expect() | stf.NoPacket() | stf.Wait():
                pass  # expectations are compared at the end, and there is nothing to wait for
            case stf.Add():
                self._add_entry(statement)
            case stf.SetDefault(table, call):
                self._target.tables.set_default(*self._names.default(table, call))
            case stf.RemoveAll():
                self._write_entries(
                    [entry._replace(change=Change.DELETE, action=None) for entry in self._added_entries]
                )
                self._added_entries.clear()
            case stf.CheckCounter():
                self._check_counter(statement)
            case stf.CounterRead(counter, index):
                _LOG.info("%s[%d] is %s", counter, index, self._read_counter(counter, index))
            case stf.CounterWrite(counter, index, packets, octets):
                name = self._names.counter(counter)
                self._target.cells.write_counter(name, index, CounterValue(packets, octets))
            case stf.StfRegisterRead() | stf.StfRegisterWrite() | stf.RegisterReset():
                self._execute_register(statement)
            case stf.MeterGetRates() | stf.MeterSetRates():
                self._execute_meter(statement)
            case _:
                self._execute_replication(statement)

    # -- tables and counters

    def _add_entry(self, add: stf.Add) -> None:
        entry = self._names.entry(add)
        self._write_entries([entry])
        self._added_entries.append(entry)
        if add.handle is not None:
            self._handles[add.handle] = entry

    def _write_entries(self, writes: Sequence[EntryWrite]) -> None:
        for error in self._target.tables.write(writes):
            if error is not None:
                raise error

    def _check_counter(self, check: stf.CheckCounter) -> None:
        if isinstance(check.cell, int):
            value = self._read_counter(check.counter, check.cell)
        else:
            value = self._read_entry_counter(check.counter, check.cell)
        count = value.packets if check.unit == "packets" else value.bytes
        if not _COMPARISONS[check.comparison](count, check.value):
            raise Mismatch(
                f"counter {check.counter}({check.cell}): expected {check.unit} {check.comparison} "
                f"{check.value}, got {count}"
            )

    def _read_counter(self, counter: str, index: int) -> CounterValue:
        cells = self._target.cells.read_counter(self._names.counter(counter), index, index + 1)
        if not cells:
            raise StfError(f"counter {counter} has no cell {index}")
        return cells[0]

    def _read_entry_counter(self, counter: str, handle: str) -> CounterValue:
        if handle not in self._handles:
            raise StfError(f"no entry was added with handle {handle}")
        entry = self._handles[handle]
        self._names.check_direct_counter(counter, entry.table)
        return self._target.tables.counter(EntryKey(entry.table, entry.key, entry.priority))

    # -- registers and meters

    def _execute_register(
        self, statement: stf.StfRegisterRead | stf.StfRegisterWrite | stf.RegisterReset
    ) -> None:
        name, size = self._names.register(statement.register)
        match statement:
            case stf.RegisterReset():
                for index in range(size):
                    self._target.cells.write_register(name, index, 0)
            case stf.StfRegisterRead(_, index):
                _check_index("register", name, index, size)
                _LOG.info(
                    "%s[%d] is %d", name, index, self._target.cells.read_register(name, index, index + 1)[0]
                )
            case stf.StfRegisterWrite(_, index, value):
                _check_index("register", name, index, size)
                self._target.cells.write_register(name, index, value)

    def _execute_meter(self, statement: stf.MeterGetRates | stf.MeterSetRates) -> None:
        name, size = self._names.meter(statement.meter)
        if statement.index is not None:
            _check_index("meter", name, statement.index, size)
        match statement:
            case stf.MeterGetRates(_, index):
                _LOG.info("%s[%d] is %s", name, index, self._meter_configs.get((name, index)))
            case stf.MeterSetRates(_, index, committed, peak):
                config = MeterConfig(
                    _to_per_second(committed.rate), committed.burst, _to_per_second(peak.rate), peak.burst
                )
                for cell in range(size) if index is None else (index,):
                    self._target.cells.write_meter(name, cell, config)
                    self._meter_configs[name, cell] = config

    # -- replication

    def _execute_replication(self, statement: stf.Statement) -> None:
        match statement:
            case stf.McGroupCreate(group):
                self._replication.create_group(group)
            case stf.McNodeCreate(instance, ports):
                self._replication.create_node(instance, ports)
            case stf.McNodeUpdate(node, ports):
                self._replication.update_node(node, ports)
            case stf.McNodeAssociate(group, node):
                self._replication.add_node_to_group(group, node)
            case stf.MirroringAdd(session, port):
                self._replication.mirror_to_port(session, port)
            case stf.MirroringAddMc(session, group):
                self._replication.mirror_to_group(session, group)
            case stf.MirroringDelete(session):
                self._replication.delete_session(session)
            case stf.MirroringGet(session):
                self._replication.check_session(session)


def _to_per_second(rate_per_us: float) -> int:
    """Convert a rate per µs (simple_switch_CLI) to an integer per second (P4Runtime). Raises StfError."""
    per_second = rate_per_us * MICROSECONDS_PER_SECOND
    if abs(per_second - round(per_second)) > _ROUNDING_ERROR:
        raise StfError(f"a rate of {rate_per_us:g} per µs is not a whole number per second")
    return round(per_second)


def _check_index(kind: str, name: str, index: int, size: int) -> None:
    if index >= size:
        raise StfError(f"{kind} {name} has {pluralize(size, 'cell')}, and no cell {index}")
