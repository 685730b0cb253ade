"""Commands on tables: what they print, and what packets and P4Runtime see of it."""

from __future__ import annotations

import pytest
from finsy.proto import p4r

from switch_harness import PROGRAMS
from switch_harness.p4runtime import CONTROL, ENTITIES, forward, read, update, write
from switch_harness.switch_runtime import ShellSwitch, shells
from switch_harness.wording import says, says_in_one_line

ADDED = "Entry has been added with handle {}"
control = shells(CONTROL)
entities = shells(ENTITIES)


def to(address: int) -> bytes:
    return address.to_bytes(6, "big") + bytes(58)


def test_an_added_entry_forwards(control: ShellSwitch) -> None:
    assert control.does("table_add forward forward_to 00:00:00:00:00:05 => 3") == [
        "Adding entry to exact match table forward",
        "match key:           EXACT-00:00:00:00:00:05",
        "action:              forward_to",
        "runtime data:        00:03",
        ADDED.format(0),
    ]
    assert control.ports_of(to(5)) == [3]
    assert control.does("table_num_entries forward") == ["1"]


@pytest.mark.parametrize("p4info", [False, True])
def test_commands_and_p4runtime_act_on_the_same_entries(p4info: bool) -> None:
    with ShellSwitch(CONTROL, p4info) as switch:
        if p4info:
            assert write(switch.control, update(forward(7, port=4))) == [None]
        else:
            switch.does("table_add forward forward_to 0x7 => 4")
        assert switch.does("table_add forward forward_to 8 => 2")[-1] == ADDED.format(1)
        (table,) = {entry.table_id for entry in entries(switch) if entry.match[0].exact.value == b"\x08"}
        assert [e.match[0].exact.value for e in entries(switch) if e.table_id == table] == [b"\x07", b"\x08"]
        switch.does("table_delete forward 0")
        assert [e.match[0].exact.value for e in entries(switch) if e.table_id == table] == [b"\x08"]


def entries(switch: ShellSwitch) -> list[p4r.TableEntry]:
    return [e.table_entry for e in read(switch.control, p4r.Entity(table_entry=p4r.TableEntry()))]


def test_handles_are_numbered_as_in_bmv2(control: ShellSwitch) -> None:
    """The lowest free number, with a version for each reuse; a cleared table begins anew."""
    for address in range(3):
        assert control.does(f"table_add forward punt {address} =>")[-1] == ADDED.format(address)
    control.does("table_delete forward 1")
    assert says(control.refuses("table_delete forward 1"), "INVALID_HANDLE", "operation")
    assert control.does("table_add forward punt 7 =>")[-1] == ADDED.format(1 << 24 | 1)
    assert says(control.refuses("table_delete forward 1"), "EXPIRED_HANDLE", "operation")
    control.does(f"table_delete forward {1 << 24 | 1}", "table_clear forward")
    assert control.does("table_num_entries forward") == ["0"]
    assert control.does("table_add forward punt 9 =>")[-1] == ADDED.format(0)


def test_handles_are_given_to_entries_written_by_p4runtime() -> None:
    with ShellSwitch(CONTROL, p4info=True) as switch:
        switch.does("table_add forward punt 1 =>", "table_add forward punt 2 =>")
        write(switch.control, update(forward(1), p4r.Update.DELETE), update(forward(5)), update(forward(6)))
        dump = switch.does("table_dump forward")
        assert [line for line in dump if "Dumping entry" in line or "EXACT" in line] == [
            "Dumping entry 0x1000000",
            "* ethernet.dst_addr   : EXACT     000000000005",
            "Dumping entry 0x1",
            "* ethernet.dst_addr   : EXACT     000000000002",
            "Dumping entry 0x2",
            "* ethernet.dst_addr   : EXACT     000000000006",
        ]


def test_a_modified_entry_executes_its_new_action(control: ShellSwitch) -> None:
    control.does("table_add forward forward_to 5 => 3")
    for line, port in (
        ("table_modify forward forward_to 0 4", 4),
        ("table_modify forward forward_to 0 => 6", 6),
    ):
        assert control.does(line) == ["Modifying entry 0 for exact match table forward"]
        assert control.ports_of(to(5)) == [port]


def test_deleted_entries_match_no_packets(control: ShellSwitch) -> None:
    control.does("table_add forward forward_to 5 => 3", "table_add forward forward_to 6 => 3")
    assert control.does("table_delete forward 0") == ["Deleting entry 0 from forward"]
    assert control.does("table_delete_match forward 0x6") == ["Deleting entry 1 from forward"]
    assert (control.ports_of(to(5)), control.ports_of(to(6))) == ([], [])


def test_defaults_are_set_by_commands_unless_constant(control: ShellSwitch) -> None:
    assert control.does("table_set_default forward forward_to 5") == [
        "Setting default action of forward",
        "action:              forward_to",
        "runtime data:        00:05",
    ]
    assert control.ports_of(to(1)) == [5]
    assert control.does("table_dump forward")[-2:] == [
        "Action entry: ControlIngress.forward_to - 05",
        "=" * 10,
    ]
    control.does("table_set_default forward forward_to 0")
    assert control.does("table_dump forward")[-2] == "Action entry: ControlIngress.forward_to - 00"
    control.does("table_set_default forward forward_to 257")
    assert control.does("table_dump forward")[-2] == "Action entry: ControlIngress.forward_to - 0101"
    control.does("table_reset_default forward")
    assert control.ports_of(to(1)) == []
    refused = control.refuses("table_set_default pairs set_tag 1 2")
    assert says(refused, "DEFAULT_ACTION_IS_CONST", "operation")


def test_commands_list_tables_and_actions(entities: ShellSwitch) -> None:
    assert entities.does("show_tables")[1:3] == [
        "Entities.metered               [implementation=None, mk=ethernet.ether_type(ternary, 16)]",
        "Entities.routed                [implementation=Entities.nexthops, mk=ethernet.dst_addr(exact, 48)]",
    ]
    actions = ["Entities.forward_metered       [port(9)]", "NoAction                       []"]
    assert entities.does("table_show_actions metered") == actions
    assert entities.does("table_info metered") == [entities.does("show_tables")[1], "*" * 80, *actions]
    assert set(actions) < set(entities.does("show_actions"))


def test_the_entry_with_the_smallest_priority_wins_as_in_bmv2(entities: ShellSwitch) -> None:
    """The smallest wins; P4Runtime, where the largest does, reads what PI gives it."""
    entities.does("table_add metered forward_metered 0x0800&&&0xff00 => 3 10")
    entities.does("table_add metered forward_metered 0&&&0 => 4 2")
    frame = bytes(12) + b"\x08\x01" + bytes(50)
    assert entities.ports_of(frame) == [4]
    entities.does("table_delete metered 1")
    assert entities.ports_of(frame) == [3]
    (entry,) = [e for e in entries(entities) if e.priority]
    assert entry.priority == (1 << 31) - 1 - 10
    assert entities.does("table_dump_entry metered 0")[3] == "Priority: 10"
    assert entities.does("table_dump_entry_from_key metered 0x800&&&0xff00 10") == entities.does(
        "table_dump_entry metered 0"
    )


def test_entries_of_every_match_kind_are_added() -> None:
    with ShellSwitch(PROGRAMS / "match_kinds") as switch:
        switch.does("table_add lpm_table lpm_hit 1 10.1.2.3/8 => 5")
        assert switch.does("table_dump_entry lpm_table 0")[2:4] == [
            "* probe.exact_part    : EXACT     0001",
            "* probe.prefix        : LPM       0a000000/8",
        ]
        added = switch.does("table_add range_table range_hit 1->0x10 3&&&0 0->7 => 5 1")
        assert added[
            1
        ] == f"{'match key:':20} RANGE-{key(switch, 0, 1, 16)}\tTERNARY-03 &&& 00\tRANGE-" + key(
            switch, 2, 0, 7
        )
        assert switch.does("table_dump_entry range_table 0")[2].endswith(
            "RANGE     " + key(switch, 0, 1, 16).replace(":", "")
        )


def key(switch: ShellSwitch, field: int, low: int, high: int) -> str:
    """A range as it is shown."""
    width = switch.shell.program.tables["range_table"].key[field].width
    return " -> ".join(value.to_bytes((width + 7) // 8, "big").hex(":") for value in (low, high))


def test_idle_timeouts_are_set_and_shown_by_commands(entities: ShellSwitch) -> None:
    entities.does("table_add seen NoAction aa:bb:cc:dd:ee:ff =>")
    assert entities.does("table_set_timeout seen 0 1500") == ["Setting a 1500 ms timeout for entry 0"]
    entities.ports.now.now = 2_000_000
    assert entities.does("table_dump_entry seen 0")[-1] == "Life: 2000ms since hit, timeout is 1500ms"
    assert [key.table for key in entities.control.timers.restart_expired(2_000_000)] == ["Entities.seen"]
    assert says_in_one_line(entities.refuses("table_set_timeout metered 0 1"), "timeouts", "metered")


@pytest.mark.parametrize(
    ("line", "error", "word"),
    [
        ("table_add nowhere drop 1 =>", "Error: Invalid table name (nowhere)", "nowhere"),
        ("table_add forward set_tug 1 => 1", "Error: Table forward has no action set_tug", "set_tug"),
        ("table_add forward drop", "Error: Insufficient number of args", ""),
        (
            "table_add forward forward_to 1 =>",
            "Error: Action ControlIngress.forward_to: expected 1 parameter, got 0",
            "",
        ),
        (
            "table_add forward forward_to 1 2 => 3",
            "Error: Table ControlIngress.forward: expected 1 key field, got 2",
            "",
        ),
        (
            "table_add forward forward_to aa:bb => 3",
            "Invalid match key: Error while parsing aa:bb - Invalid MAC address",
            "aa:bb",
        ),
        (
            "table_add forward forward_to 1 => 512",
            "Invalid runtime data: Error while parsing 512 - Parameter is too large, it has to fit in bit<9>",
            "512",
        ),
        ("table_delete forward x", "Error: Bad format for entry handle", "x"),
        ("table_delete forward", "Error: Wrong number of args, expected 2 but got 1", ""),
        ("table_dropp forward", "*** Unknown syntax: table_dropp forward", "table_dropp"),
    ],
)
def test_mistakes_name_the_word(control: ShellSwitch, line: str, error: str, word: str) -> None:
    assert control.refuses(line) == error
    assert control.wrong_word(line) == word


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (
            "table_add metered NoAction 1 => 3",
            "Invalid match key: Invalid ternary value 1, use '&&&' to separate",
        ),
        (
            "table_add metered NoAction 1&&&1 =>",
            "Error: Table is ternary, but could not extract a valid priority",
        ),
        ("table_add balanced drop 1/8 =>", "Invalid table operation (WRONG_TABLE_TYPE): "),
        ("table_add started drop 1 =>", "Invalid table operation (IMMUTABLE_TABLE_ENTRIES): "),
        ("table_indirect_add balanced 1/49 => 0", "Invalid match key: prefix length 49 of 1/49 is above 48"),
        ("table_indirect_add balanced 1 => 0", "Invalid match key: Invalid LPM value 1, use '/' to separate"),
        ("table_indirect_add seen 1 => 0", "Error: Cannot run this command on non-indirect table"),
    ],
)
def test_commands_that_do_not_fit_a_table_are_refused(entities: ShellSwitch, line: str, error: str) -> None:
    assert entities.refuses(line).startswith(error)


def test_a_full_table_and_a_duplicate_entry_are_refused(control: ShellSwitch) -> None:
    for address in range(4):
        control.does(f"table_add pairs NoAction {address} 0 =>")
    assert control.refuses("table_add pairs NoAction 1 0 =>") == (
        "Invalid table operation (DUPLICATE_ENTRY): table ControlIngress.pairs has an entry 0x1 0x0 already"
    )
    assert says(control.refuses("table_add pairs NoAction 9 0 =>"), "TABLE_FULL", "operation")


def test_tables_and_actions_are_named_by_a_unique_suffix(control: ShellSwitch) -> None:
    for name in ("ControlIngress.forward", "forward"):
        assert control.does(f"table_num_entries {name}") == ["0"]
    assert control.refuses("table_num_entries ward") == "Error: Invalid table name (ward)"
