"""Random calls over Thrift, and the same operations of our own CLI, leave the same state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softswitch.runtime.interface import Runtime, RuntimeRate, TableAction
from softswitch.runtime.refusals import RuntimeRefusal
from softswitch.thrift.structs import COUNTER_ERRORS, METER_ERRORS, REGISTER_ERRORS, TABLE_ERRORS
from switch_harness.effort import examples
from switch_harness.p4runtime import ENTITIES
from switch_harness.switch_runtime import ShellSwitch
from switch_harness.thrift_clients import ThriftSwitch, declarations, serving_thrift

types = declarations()
METERED, ROUTED = "Entities.metered", "Entities.routed"
FORWARD = "Entities.forward_metered"
OBSERVED_TABLES = (METERED, ROUTED)
Numbers = tuple[int, int, int]


class Operation(NamedTuple):
    """A call over Thrift and the same through `Runtime`, and the codes that its exception may have."""

    over_thrift: Callable[[Any, Numbers], object]
    directly: Callable[[Runtime, Numbers], object]
    codes: dict[str, int]


def key(number: int) -> list[Any]:
    param = types.TernaryParam(key=number.to_bytes(2, "big"), mask=b"\x00\x0e")
    return [types.MatchParam(type=2, ternary=param)]


def exact(number: int) -> list[Any]:
    return [types.MatchParam(type=0, exact=types.ExactParam(key=number.to_bytes(6, "big")))]


def rate(first: int, second: int) -> list[Any]:
    return [types.MeterRate(units_per_micros=float(part), burst_size=part) for part in (first, second)]


def runtime_rate(first: int, second: int) -> list[RuntimeRate]:
    return [RuntimeRate(rate=float(part), burst=part) for part in (first, second)]


def metered(port: int) -> TableAction:
    return TableAction(action=FORWARD, data=[hex(port)])


OPERATIONS = {
    "add": Operation(
        lambda c, n: c.bm_mt_add_entry(
            0, METERED, key(n[0]), FORWARD, [bytes([n[1]])], types.AddEntryOptions(priority=n[2])
        ),
        lambda r, n: r.table_add(METERED, [f"{n[0]:#x}&&&0xe"], n[2], metered(n[1])),
        TABLE_ERRORS,
    ),
    "modify": Operation(
        lambda c, n: c.bm_mt_modify_entry(0, METERED, n[0], FORWARD, [bytes([n[1]])]),
        lambda r, n: r.table_modify(METERED, n[0], metered(n[1])),
        TABLE_ERRORS,
    ),
    "delete": Operation(
        lambda c, n: c.bm_mt_delete_entry(0, METERED, n[0]),
        lambda r, n: r.table_delete(METERED, n[0]),
        TABLE_ERRORS,
    ),
    "set the default": Operation(
        lambda c, n: c.bm_mt_set_default_action(0, METERED, FORWARD, [bytes([n[1]])]),
        lambda r, n: r.table_set_default(METERED, metered(n[1])),
        TABLE_ERRORS,
    ),
    "add a member": Operation(
        lambda c, n: c.bm_mt_act_prof_add_member(
            0, "Entities.nexthops", "Entities.forward_to", [bytes([n[1]])]
        ),
        lambda r, n: r.member_create("Entities.nexthops", "Entities.forward_to", [hex(n[1])]),
        TABLE_ERRORS,
    ),
    "delete a member": Operation(
        lambda c, n: c.bm_mt_act_prof_delete_member(0, "Entities.nexthops", n[0]),
        lambda r, n: r.member_delete("Entities.nexthops", n[0]),
        TABLE_ERRORS,
    ),
    "add to the indirect table": Operation(
        lambda c, n: c.bm_mt_indirect_add_entry(0, ROUTED, exact(n[0]), n[2], types.AddEntryOptions()),
        lambda r, n: r.table_add(ROUTED, [hex(n[0])], 0, TableAction(member=n[2])),
        TABLE_ERRORS,
    ),
    "write an entry's counter": Operation(
        lambda c, n: c.bm_mt_write_counter(
            0, METERED, n[0], types.CounterBytesAndPackets(bytes=n[1], packets=n[2])
        ),
        lambda r, n: r.entry_counter_write(METERED, n[0], packets=n[2], octets=n[1]),
        TABLE_ERRORS,
    ),
    "write a register": Operation(
        lambda c, n: c.bm_register_write(0, "Entities.cells", n[0], n[1] - 3),
        lambda r, n: r.register_write("Entities.cells", n[0], hex(n[1] - 3)),
        REGISTER_ERRORS,
    ),
    "reset the register": Operation(
        lambda c, n: c.bm_register_reset(0, "Entities.cells"),
        lambda r, n: r.register_write("Entities.cells", None, "0x0"),
        REGISTER_ERRORS,
    ),
    "write a counter": Operation(
        lambda c, n: c.bm_counter_write(
            0, "Entities.counts", n[0], types.CounterBytesAndPackets(bytes=n[1] - 1, packets=n[2])
        ),
        lambda r, n: r.counter_write("Entities.counts", n[0], packets=n[2], octets=n[1] - 1),
        COUNTER_ERRORS,
    ),
    "set a meter": Operation(
        lambda c, n: c.bm_meter_set_rates(0, "Entities.rates", n[0], rate(n[1], n[2])),
        lambda r, n: r.meter_set_rates("Entities.rates", n[0], runtime_rate(n[1], n[2])),
        METER_ERRORS,
    ),
}
CALLS = st.lists(
    st.tuples(
        st.sampled_from(sorted(OPERATIONS)),
        st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(0, 5)),
    ),
    max_size=25,
)


@pytest.fixture(scope="module")
def switch() -> Iterator[ThriftSwitch]:
    with serving_thrift(ENTITIES) as found:
        yield found


@settings(max_examples=examples(40), deadline=None)
@given(CALLS)
def test_random_calls_over_thrift_leave_the_state_of_the_commands_operations(
    switch: ThriftSwitch, calls: list[tuple[str, Numbers]]
) -> None:
    with switch.connected() as clients, ShellSwitch(ENTITIES) as plain:
        clients["standard"].bm_reset_state()
        for name, numbers in calls:
            operation = OPERATIONS[name]
            over_thrift = _result_over_thrift(operation, clients["standard"], numbers)
            assert over_thrift == _result_directly(operation, plain.runtime, numbers), name
        assert clients["standard"].bm_serialize_state() == plain.runtime.state()
        for table in OBSERVED_TABLES:
            assert switch.runtime.table_entries(table) == plain.runtime.table_entries(table)


def _result_over_thrift(operation: Operation, client: Any, numbers: Numbers) -> object:
    try:
        return operation.over_thrift(client, numbers)
    except types.Refused as error:
        return "refused", error.code


def _result_directly(operation: Operation, runtime: Runtime, numbers: Numbers) -> object:
    try:
        return operation.directly(runtime, numbers)
    except RuntimeRefusal as error:
        return "refused", operation.codes[error.code]
