"""Commands on registers, counters, meters and parser value sets: read back from packets and by P4Runtime."""

from __future__ import annotations

import pytest
from finsy.proto import p4r

from softswitch.p4runtime.messages import adopt
from softswitch.pipeline import CounterValue, MeterConfig
from switch_harness import PROGRAMS
from switch_harness.p4runtime import CONTROL, ENTITIES, config, read
from switch_harness.switch_runtime import ShellSwitch, shells
from switch_harness.wording import says, says_in_one_line

entities = shells(ENTITIES, False, True)
control = shells(CONTROL)


def test_packets_and_commands_share_registers(
    control: ShellSwitch, capsys: pytest.CaptureFixture[str]
) -> None:
    control.does("register_write cells 0 41")
    control.pipeline.process(1, bytes(64), 0, 0)
    assert control.does("register_read cells 0") == ["cells[0]= 42"]
    control.does("register_write ControlIngress.cells 4095 0xffffffffffffffffffffffff")
    assert control.does("register_read cells 4095") == [f"cells[4095]= {(1 << 96) - 1}"]
    (whole,) = control.does("register_read cells")
    assert whole == f"cells= 42, {'0, ' * 4094}{(1 << 96) - 1}"
    assert says_in_one_line(capsys.readouterr().err, "register", "omitted")
    control.does("register_reset cells")
    assert control.pipeline.cells.read_register("ControlIngress.cells", 0, 4096) == [0] * 4096


def test_packets_and_commands_share_counters(control: ShellSwitch) -> None:
    control.pipeline.process(1, bytes(64), 0, 0)
    assert control.does("counter_read drops 0") == ["drops[0]= (64 bytes, 1 packets)"]
    assert control.does("counter_write drops 1 7 800") == ["drops[1] has been updated"]
    assert control.pipeline.cells.read_counter("ControlIngress.drops", 1, 2) == [CounterValue(7, 800)]
    control.does("counter_reset drops")
    assert set(control.pipeline.cells.read_counter("ControlIngress.drops", 0, 16)) == {CounterValue(0, 0)}


def test_counters_of_entries_are_read_and_reset_by_commands(control: ShellSwitch) -> None:
    control.does("table_add forward forward_to 0 => 1", "table_add forward forward_to 1 => 1")
    control.pipeline.process(1, bytes(64), 0, 0)
    direct = "this is the direct counter for table ControlIngress.forward"
    assert control.does("counter_read forwarded 0") == [direct, "forwarded[0]= (64 bytes, 1 packets)"]
    assert control.does("counter_write forwarded 1 2 3")[1] == "forwarded[1] has been updated"
    assert control.does("counter_read forwarded 1")[1] == "forwarded[1]= (3 bytes, 2 packets)"
    assert control.does("counter_reset forwarded") == [direct]
    assert [entry.counter for entry in control.pipeline.tables.read("ControlIngress.forward")] == [(0, 0)] * 2


def test_meters_set_by_commands_colour_packets(entities: ShellSwitch) -> None:
    """The first cell's colour is in the first register."""
    entities.does("meter_set_rates rates 0 0.0000005:1 0.000001:2")
    assert entities.does("meter_get_rates rates 0") == [
        "0: info rate = 5e-07, burst size = 1",
        "1: info rate = 1e-06, burst size = 2",
    ]
    colours = []
    for _ in range(3):
        entities.pipeline.process(1, bytes(64), 0, 0)
        colours.append(entities.does("register_read cells 0")[0])
    assert colours == ["cells[0]= 0", "cells[0]= 1", "cells[0]= 2"]
    assert entities.does("meter_get_rates rates 1") == ["WARNING: expected 2 rates but only received 0"]
    entities.does("meter_array_set_rates rates 1:10 2:20")
    (cell, *others) = read(entities.control, p4r.Entity(meter_entry=p4r.MeterEntry()))
    assert cell.meter_entry.config == p4r.MeterConfig(cir=1_000_000, cburst=10, pir=2_000_000, pburst=20)
    assert len(others) == 7


def test_meters_of_entries_are_set_and_read_by_commands(entities: ShellSwitch) -> None:
    entities.does("table_add metered forward_metered 0&&&0 => 3 1")
    entities.does("meter_array_set_rates entry_rates 0.0000005:1 0.000001:2")
    assert entities.does("meter_get_rates entry_rates 0")[0] == "0: info rate = 5e-07, burst size = 1"
    entities.does("table_modify metered forward_metered 0 4")
    assert entities.does("meter_get_rates entry_rates 0")[0] == "0: info rate = 5e-07, burst size = 1"
    entities.does("meter_set_rates entry_rates 0 2:30 4:50")
    metered = entities.control.stores.get_by_name("Entities.metered").extras.values()
    assert [extras.meter for extras in metered] == [MeterConfig(2_000_000, 30, 4_000_000, 50)]
    assert says(entities.refuses("meter_get_rates entry_rates 7"), "INVALID_HANDLE", "operation")


def test_value_sets_decide_where_packets_go(entities: ShellSwitch) -> None:
    assert entities.does("show_pvs") == ["EntitiesParser.odd_types       [compressed bitwidth:16]"]
    entities.does("pvs_add odd_types 0x88cc", "pvs_add odd_types 0x1", "pvs_add odd_types 0x88cc")
    assert entities.does("pvs_get odd_types") == ["88cc", "0001"]
    (read_back,) = read(entities.control, p4r.Entity(value_set_entry=p4r.ValueSetEntry()))
    assert [m.match[0].exact.value for m in read_back.value_set_entry.members] == [b"\x88\xcc", b"\x01"]
    entities.does("pvs_remove odd_types 1", "pvs_remove odd_types 2")
    assert entities.does("pvs_get odd_types") == ["88cc"]
    entities.does("pvs_clear odd_types")
    assert entities.does("pvs_get odd_types") == []
    assert (
        entities.refuses("pvs_add odd_types 0x10000")
        == "Error: Input is too large, it should fit within 16 bits"
    )


def test_the_parts_of_a_value_set_member_are_joined_in_order() -> None:
    with ShellSwitch(PROGRAMS / "value_sets") as switch:
        switch.does("pvs_add pairs 0xabcd")
        first, second = switch.pipeline.program.value_sets[1].widths
        assert first + second == 16
        kinds, pairs = map(switch.control.value_sets.members, switch.control.p4info.value_sets)
        assert (kinds, pairs) == ((), ((0xABCD >> second, 0xABCD & (1 << second) - 1),))


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("register_read cells 8", "Invalid register operation (INVALID_INDEX): "),
        ("register_write cells 8 1", "Invalid register operation (INVALID_INDEX): "),
        ("register_write cells 0 x", "Error: Bad format for value"),
        ("register_reset rates", "Error: Invalid register name (rates)"),
        ("counter_read counts 8", "Invalid counter operation (INVALID_INDEX): "),
        ("counter_write counts 0 -1 0", "Invalid counter operation (ERROR): "),
        ("counter_reset cells", "Error: Invalid counter name (cells)"),
        ("meter_set_rates rates 8 1:1 2:1", "Invalid meter operation (INVALID_INDEX): "),
        ("meter_set_rates rates 0 2:1 1:1", "Invalid meter operation (INVALID_INFO_RATE_VALUE): "),
        ("meter_set_rates rates 0 1:1 2:-1", "Invalid meter operation (INVALID_BURST_SIZE_VALUE): "),
        ("meter_set_rates rates 0 1:1", "Error: Invalid number of rates, expected 2 but got 1"),
        ("meter_set_rates rates 0 1 2:1", "Error: Error while parsing rates"),
        ("meter_get_rates nowhere 0", "Error: Invalid meter name (nowhere)"),
        ("pvs_get nowhere", "Error: Invalid parser value set name (nowhere)"),
    ],
)
def test_mistakes_on_cells_are_refused_as_in_bmv2(entities: ShellSwitch, line: str, error: str) -> None:
    assert entities.refuses(line).startswith(error)


def test_indices_of_commands_are_the_cells_not_a_controller_s() -> None:
    """In `hop_t`, controllers know cell 510 as index 0xFFFFFFFD."""
    names = PROGRAMS / "names"
    request = config(program=names)
    for arrays in (request.p4info.counters, request.p4info.meters, request.p4info.registers):
        for array in arrays:
            array.index_type_name.name = "hop_t"
    with ShellSwitch(names, p4info=True) as switch:
        switch.pipelines.load(adopt(request))
        switch.does("counter_write seen 510 9 800")
        assert switch.does("counter_read seen 510") == ["seen[510]= (800 bytes, 9 packets)"]
        switch.does("register_write last_vrf 510 5")
        assert switch.does("register_read last_vrf 510") == ["last_vrf[510]= 5"]
        switch.does("meter_set_rates rate 510 0.000002:3 0.000004:5")
        assert switch.does("meter_get_rates rate 510")[0] == "0: info rate = 2e-06, burst size = 3"
