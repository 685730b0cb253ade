"""Commands on the switch as a device: programs, state, ports, queues, time and hashes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.protobuf import text_format

from softswitch.hashing import Crc
from softswitch.p4runtime.messages import p4r
from switch_harness import PROGRAMS
from switch_harness.bmv2_client import varint
from switch_harness.p4runtime import CONTROL, ENTITIES, Control
from switch_harness.switch_runtime import ShellSwitch, shells
from switch_harness.wording import says

switch = shells(CONTROL)


def test_a_new_program_replaces_the_running_program(switch: ShellSwitch) -> None:
    switch.does("table_add forward forward_to 1 => 2")
    assert says(switch.refuses("swap_configs"), "NO_ONGOING_SWAP", "operation")
    assert switch.does(f"load_new_config_file {ENTITIES}.json") == ["Loading new Json config"]
    switch.does("table_add seen NoAction 1 =>")
    assert len(switch.ports.started) == 1
    assert switch.does("swap_configs") == ["Swapping configs"]
    assert switch.pipeline.tables.count("Entities.seen") == 1
    assert switch.does("table_num_entries seen") == ["1"]
    assert switch.refuses("table_num_entries forward") == "Error: Invalid table name (forward)"


def test_an_invalid_swap_is_refused(switch: ShellSwitch, tmp_path: Path) -> None:
    assert switch.refuses("load_new_config_file /nowhere.json") == "Error: Not a valid filename"
    (tmp_path / "bad.json").write_text("{}")
    assert "not a BMv2 program" in switch.refuses(f"load_new_config_file {tmp_path}/bad.json")
    switch.does(f"load_new_config_file {ENTITIES}.json")
    refused = switch.refuses(f"load_new_config_file {ENTITIES}.json")
    assert says(refused, "ONGOING_SWAP", "operation")


@pytest.mark.parametrize("command", ["serialize_state", "write_config_to_file"])
def test_an_interrupted_command_leaves_the_previous_file(
    command: str, switch: ShellSwitch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    file = tmp_path / "file"
    file.write_text("previous")
    monkeypatch.setattr("os.replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        switch.does(f"{command} {file}")
    assert [each.read_text() for each in tmp_path.iterdir()] == ["previous"]


def test_a_file_that_is_a_device_is_written_in_place(switch: ShellSwitch) -> None:
    switch.does("write_config_to_file /dev/null")
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize(
    ("form", "loaded_by"),
    [("plain", "switch"), ("comment", "switch"), ("wrapped", "switch"), ("comment", "command")],
)
def test_commands_read_the_program_that_the_switch_runs(form: str, loaded_by: str, tmp_path: Path) -> None:
    """Also a program that is not UTF-8, as BMv2 takes it, and one in the message of the tutorials."""
    data = CONTROL.with_suffix(".json").read_bytes()
    if form == "comment":
        data = b"// \xe4\n" + data
    elif form == "wrapped":
        data = b"\x1a" + varint(len(data)) + data
    program = tmp_path / "program"
    program.with_suffix(".json").write_bytes(data)
    if loaded_by == "switch":
        p4info = CONTROL.with_suffix(".p4info.txtpb")
        program.with_suffix(".p4info.txtpb").write_bytes(p4info.read_bytes())
        with ShellSwitch(program, p4info=form == "wrapped") as switch:
            switch.does("table_add forward forward_to 1 => 2")
    else:
        with ShellSwitch(ENTITIES) as switch:
            switch.does(f"load_new_config_file {program}.json", "swap_configs")
            switch.does("table_add forward forward_to 1 => 2")


@pytest.mark.parametrize("p4info", [False, True])
def test_reset_state_clears_entries_registers_and_groups(p4info: bool) -> None:
    with ShellSwitch(CONTROL, p4info) as switch:
        switch.does("table_add forward forward_to 1 => 2", "register_write cells 0 5", "mc_mgrp_create 1")
        switch.does("mc_node_create 0 1", "reset_state")
        assert switch.does("table_num_entries forward") == ["0"]
        assert switch.does("register_read cells 0") == ["cells[0]= 0"]
        assert switch.does("mc_dump")[2] == "=" * 10
        assert (switch.pipelines.running is not None) == p4info


def test_the_program_and_the_state_are_written_to_files(switch: ShellSwitch, tmp_path: Path) -> None:
    switch.does(f"write_config_to_file {tmp_path}/config.json")
    assert json.loads((tmp_path / "config.json").read_text()) == json.loads(
        CONTROL.with_suffix(".json").read_text()
    )
    switch.does("table_add forward forward_to 1 => 2", f"serialize_state {tmp_path}/state.txt")
    state = text_format.Parse((tmp_path / "state.txt").read_text(), p4r.ReadResponse())
    found = [e.table_entry for e in state.entities if e.table_entry.match and not e.table_entry.is_const]
    assert [entry.match[0].exact.value for entry in found] == [b"\x01"]
    assert switch.refuses("serialize_state /nowhere/x") == "Error: /nowhere/x: No such file or directory"


def test_ports_are_shown_added_and_removed_by_commands(switch: ShellSwitch) -> None:
    assert switch.does("show_ports")[2:] == [
        "    1           s1-eth1           UP    ",
        "    2           s1-eth2          DOWN   ",
    ]
    switch.does("port_add s1-eth3 7", "port_remove 1")
    assert switch.ports.names() == {2: "s1-eth2", 7: "s1-eth3"}
    assert (
        switch.refuses("port_add x 7") == "Invalid device manager operation (ERROR): port 7 is there already"
    )
    assert switch.refuses("port_remove 3") == "Invalid device manager operation (ERROR): there is no port 3"
    assert switch.refuses("port_add x 9 file.pcap") == "Error: a pcap_path is not supported"


def test_rates_and_depths_of_queues_are_set_by_commands(switch: ShellSwitch) -> None:
    switch.does("set_queue_rate 100", "set_queue_rate 50 1", "set_queue_depth 8 2 0")
    assert switch.ports.calls == [(None, None, 100, None), (1, None, 50, None), (2, 0, None, 8)]
    assert switch.refuses("set_queue_rate 1 9") == "Error: there is no port 9"
    assert switch.refuses("set_queue_rate x") == "Error: Bad format for rate_pps, expected integer"


def test_the_elapsed_and_the_unix_time_are_printed(switch: ShellSwitch) -> None:
    switch.ports.now.now = 1234
    assert switch.does("get_time_elapsed") == ["1234"]
    assert int(switch.does("get_time_since_epoch")[0]) > 1_700_000_000_000_000


def test_switch_info_prints_the_device_id(switch: ShellSwitch) -> None:
    assert switch.does("switch_info")[0] == "device_id     : 1"


def test_crc_parameters_are_changed_by_commands() -> None:
    with ShellSwitch(PROGRAMS / "hashes") as switch:
        name = next(name for name, width in switch.shell.program.crcs.items() if width == 16)
        switch.does(f"set_crc16_parameters {name} 0x1021 0xffff 0x1 false 0")
        assert switch.ports.calls == [(name, Crc(16, 0x1021, 0xFFFF, 1, reflected=False))]
        assert (
            switch.refuses(f"set_crc32_parameters {name} 1 1 1 0 0")
            == f"Error: Invalid crc32_custom name ({name})"
        )
        for words, error in (
            ("0x10000 0 0 0 0", "Error: Integer cannot fit within 16 bits"),
            ("1 0 0 maybe 0", "Error: Invalid bool parameter"),
            ("1 0 0 true false", "Invalid crc operation (INVALID_CONFIG): "),
        ):
            assert switch.refuses(f"set_crc16_parameters {name} {words}").startswith(error)


def test_commands_that_cannot_be_journalled_are_refused(switch: ShellSwitch, tmp_path: Path) -> None:
    """A switch that restarts with pinned state replays its journal, which has only P4Runtime writes."""
    from softswitch.p4runtime.journal import Journal

    control: Control = switch.control
    journal = Journal(tmp_path, control.config)
    control.journal_writes(journal)
    switch.does("table_add forward forward_to 1 => 2")
    assert len(list(journal.read_requests())) == 1
    for line in ("mc_mgrp_create 1", "mirroring_add 1 2"):
        assert says(switch.refuses(line), "persisted", "--pin")
    journal.close()


def test_help_is_printed_and_comments_are_ignored(switch: ShellSwitch) -> None:
    assert switch.does("help table_add") == [
        "Add entry to a match table: table_add <table name> <action name> <match fields> => "
        "<action parameters> [priority]"
    ]
    assert switch.does("# a comment") == switch.does("//another") == switch.does("   ") == []
    assert switch.does("!echo hello") == ["hello\n"]
    assert switch.shell.run("EOF")


def test_all_commands_of_bmv2_exist(switch: ShellSwitch) -> None:
    """Expect the commands of runtime_CLI.py and sswitch_CLI.py, but for `set_toeplitz_hash_key`."""
    names = {name.removeprefix("do_") for name in dir(switch.shell) if name.startswith("do_")}
    bmv2 = [
        "EOF",
        "act_prof_add_member_to_group",
        "act_prof_create_group",
        "act_prof_create_member",
        "act_prof_delete_group",
        "act_prof_delete_member",
        "act_prof_dump",
        "act_prof_dump_group",
        "act_prof_dump_member",
        "act_prof_modify_member",
        "act_prof_remove_member_from_group",
        "counter_read",
        "counter_reset",
        "counter_write",
        "get_time_elapsed",
        "get_time_since_epoch",
        "greet",
        "help",
        "load_new_config_file",
        "mc_dump",
        "mc_mgrp_create",
        "mc_mgrp_destroy",
        "mc_node_associate",
        "mc_node_create",
        "mc_node_destroy",
        "mc_node_dissociate",
        "mc_node_update",
        "mc_set_lag_membership",
        "meter_array_set_rates",
        "meter_get_rates",
        "meter_set_rates",
        "mirroring_add",
        "mirroring_add_mc",
        "mirroring_delete",
        "mirroring_get",
        "port_add",
        "port_remove",
        "pvs_add",
        "pvs_clear",
        "pvs_get",
        "pvs_remove",
        "register_read",
        "register_reset",
        "register_write",
        "reset_state",
        "serialize_state",
        "set_crc16_parameters",
        "set_crc32_parameters",
        "set_queue_depth",
        "set_queue_rate",
        "shell",
        "show_actions",
        "show_ports",
        "show_pvs",
        "show_tables",
        "swap_configs",
        "switch_info",
        "table_add",
        "table_clear",
        "table_delete",
        "table_dump",
        "table_dump_entry",
        "table_dump_entry_from_key",
        "table_dump_group",
        "table_dump_member",
        "table_indirect_add",
        "table_indirect_add_member_to_group",
        "table_indirect_add_with_group",
        "table_indirect_create_group",
        "table_indirect_create_member",
        "table_indirect_delete",
        "table_indirect_delete_group",
        "table_indirect_delete_member",
        "table_indirect_modify_member",
        "table_indirect_remove_member_from_group",
        "table_indirect_reset_default",
        "table_indirect_set_default",
        "table_indirect_set_default_with_group",
        "table_info",
        "table_modify",
        "table_num_entries",
        "table_reset_default",
        "table_set_default",
        "table_set_timeout",
        "table_show_actions",
        "write_config_to_file",
    ]
    assert set(bmv2) - names == set()
    assert names - set(bmv2) == {"table_delete_match"}
    assert all(getattr(switch.shell, f"do_{name}").__doc__ for name in bmv2)


def test_names_of_tables_and_registers_are_completed(switch: ShellSwitch) -> None:
    def completed(line: str) -> list[str]:
        text = line[line.rindex(" ") + 1 :]
        return switch.shell.completedefault(text, line, len(line) - len(text), len(line))

    assert completed("table_dump Control") == [
        "ControlIngress.forward",
        "ControlIngress.pairs",
        "ControlIngress.types",
    ]
    assert completed("table_add ControlIngress.pairs Control") == ["ControlIngress.set_tag"]
    assert completed("register_read C") == ["ControlIngress.cells"]
    assert completed("table_dump forward ") == completed("mc_dump ") == []
