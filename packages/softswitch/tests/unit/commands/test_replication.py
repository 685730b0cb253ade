"""Commands on multicast groups and mirroring sessions: what packets and P4Runtime see of them."""

from __future__ import annotations

import pytest
from finsy.proto import p4r

from switch_harness import PROGRAMS
from switch_harness.constructs import compiled
from switch_harness.p4runtime import read, write
from switch_harness.switch_runtime import ShellSwitch, shells
from switch_harness.wording import says

REPLICATION = PROGRAMS / "replication"
GROUP = p4r.PacketReplicationEngineEntry(multicast_group_entry=p4r.MulticastGroupEntry())
SESSION = p4r.PacketReplicationEngineEntry(clone_session_entry=p4r.CloneSessionEntry())
switch = shells(REPLICATION, True)


def frame(op: int, group: int = 0, session: int = 0) -> bytes:
    program = compiled("replication")
    probe = next(header for header in program.headers if header.name == "probe")
    values = {"op": op, "group": group, "session": session, "port": 9}
    joined = 0
    for field in probe.fields:
        joined = joined << field.width | values.get(field.name, 0)
    return joined.to_bytes(sum(field.width for field in probe.fields) // 8, "big")


def test_copies_go_in_the_order_of_the_nodes(switch: ShellSwitch) -> None:
    assert switch.does("mc_mgrp_create 1") == ["Creating multicast group 1"]
    assert switch.does("mc_node_create 5 8 1 5") == [
        "Creating node with rid 5 , port map 100100010 and lag map ",
        "node was created with handle 0",
    ]
    assert switch.does("mc_node_create 2 3")[1] == "node was created with handle 1"
    assert switch.ports_of(frame(2, group=1)) == []
    assert switch.does("mc_node_associate 1 1") == ["Associating node 1 to multicast group 1"]
    switch.does("mc_node_associate 1 0")
    assert switch.ports_of(frame(2, group=1)) == [3, 1, 5, 8]
    assert switch.does("mc_dump") == [
        "==========",
        "MC ENTRIES",
        "**********",
        "mgrp(1)",
        "  -> (L1h=1, rid=2) -> (ports=[3], lags=[])",
        "  -> (L1h=0, rid=5) -> (ports=[1, 5, 8], lags=[])",
        "==========",
        "LAGS",
        "==========",
    ]
    (entity,) = read(switch.control, p4r.Entity(packet_replication_engine_entry=GROUP))
    replicas = entity.packet_replication_engine_entry.multicast_group_entry.replicas
    assert [(each.egress_port, each.instance) for each in replicas] == [(3, 2), (1, 5), (5, 5), (8, 5)]
    switch.does("mc_node_update 0 4")
    assert switch.ports_of(frame(2, group=1)) == [3, 4]
    switch.does("mc_node_dissociate 1 1")
    assert switch.ports_of(frame(2, group=1)) == [4]
    assert switch.does("mc_node_destroy 0") == ["Destroying node 0"]
    assert switch.ports_of(frame(2, group=1)) == []
    assert switch.does("mc_node_create 0 1")[1] == "node was created with handle 0"
    assert switch.does("mc_mgrp_destroy 1") == ["Destroying multicast group 1"]
    assert read(switch.control, p4r.Entity(packet_replication_engine_entry=GROUP)) == []


def test_a_node_sends_to_one_port_of_a_lag(switch: ShellSwitch) -> None:
    """BMv2's hash is 255 for all packets; BMv2 shows the last node's ports as the LAG's."""
    switch.does("mc_mgrp_create 1", "mc_node_create 2 1 | 1 3", "mc_node_associate 1 0")
    assert switch.ports_of(frame(2, group=1)) == [1]
    assert switch.does("mc_set_lag_membership 1 6 9 12") == ["Setting lag membership: 1 <- 1001001000000"]
    assert switch.ports_of(frame(2, group=1)) == [1, (6, 9, 12)[255 % 3]]
    assert switch.does("mc_dump")[-4:] == [
        "==========",
        "LAGS",
        "lag(1) -> ports=[6, 9, 12]",
        "==========",
    ]


def test_multicast_groups_written_by_p4runtime_become_nodes(switch: ShellSwitch) -> None:
    group = p4r.MulticastGroupEntry(
        multicast_group_id=7,
        replicas=[p4r.Replica(egress_port=port, instance=rid) for port, rid in ((4, 1), (2, 1), (9, 2))],
    )
    entity = p4r.Entity(
        packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(multicast_group_entry=group)
    )
    assert write(switch.control, p4r.Update(type=p4r.Update.INSERT, entity=entity)) == [None]
    nodes = [line for line in switch.does("mc_dump") if "L1h" in line]
    assert sorted(line.split("rid=")[1] for line in nodes) == [
        "1) -> (ports=[2, 4], lags=[])",
        "2) -> (ports=[9], lags=[])",
    ]
    handle = switch.does("mc_node_create 3 10")[1].split()[-1]
    switch.does(f"mc_node_associate 7 {handle}")
    assert sorted(switch.ports_of(frame(2, group=7))) == [2, 4, 9, 10]
    assert write(switch.control, p4r.Update(type=p4r.Update.DELETE, entity=entity)) == [None]
    assert switch.does("mc_dump")[2] == "=========="
    switch.does("mc_mgrp_create 8", f"mc_node_associate 8 {handle}")
    assert switch.ports_of(frame(2, group=8)) == [10]


def test_mirroring_sessions_are_added_read_and_deleted_by_commands(switch: ShellSwitch) -> None:
    assert says(switch.refuses("mirroring_get 5"), "SESSION_NOT_FOUND", "mirroring")
    assert sorted(switch.ports_of(frame(1, session=5))) == [9]
    switch.does("mirroring_add 5 7")
    assert switch.does("mirroring_get 5") == ["MirroringSessionConfig(port=7, mgid=None)"]
    assert sorted(switch.ports_of(frame(1, session=5))) == [7, 9]
    (entity,) = read(switch.control, p4r.Entity(packet_replication_engine_entry=SESSION))
    assert entity.packet_replication_engine_entry.clone_session_entry.replicas[0].egress_port == 7
    switch.does("mirroring_delete 5")
    assert sorted(switch.ports_of(frame(1, session=5))) == [9]


def test_a_session_follows_its_multicast_group(switch: ShellSwitch) -> None:
    switch.does("mc_mgrp_create 3", "mc_node_create 0 1 2", "mirroring_add_mc 5 3")
    assert switch.does("mirroring_get 5") == ["MirroringSessionConfig(port=None, mgid=3)"]
    assert sorted(switch.ports_of(frame(1, session=5))) == [9]
    switch.does("mc_node_associate 3 0")
    assert sorted(switch.ports_of(frame(1, session=5))) == [1, 2, 9]
    switch.does("mc_mgrp_destroy 3")
    assert sorted(switch.ports_of(frame(1, session=5))) == [9]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("mc_mgrp_create 0", "Invalid PRE operation (INVALID_MGID): "),
        ("mc_mgrp_create x", "Error: Bad format for multicast group id"),
        ("mc_node_create 1 511", "Invalid PRE operation (ERROR): "),
        ("mc_node_create 1 2 2", "Error: Found duplicate port number '2'"),
        ("mc_node_create 1 -2", "Error: '-2' is not a valid port number"),
        ("mc_node_associate 1 0", "Invalid PRE operation (INVALID_L1_HANDLE): "),
        ("mc_node_update 3 1", "Invalid PRE operation (INVALID_L1_HANDLE): "),
        ("mirroring_add 32768 1", "Invalid mirroring operation (ERROR): "),
        ("mirroring_add 1 x", "Error: Bad format for egress_port, expected integer"),
    ],
)
def test_mistakes_on_groups_and_sessions_are_refused_as_in_bmv2(
    switch: ShellSwitch, line: str, error: str
) -> None:
    assert switch.refuses(line).startswith(error)


def test_a_node_is_in_one_group(switch: ShellSwitch) -> None:
    switch.does("mc_mgrp_create 1", "mc_mgrp_create 2", "mc_node_create 0 1", "mc_node_associate 1 0")
    assert switch.refuses("mc_node_associate 2 0") == (
        "Invalid PRE operation (ERROR): node 0 is in multicast group 1 already"
    )
    assert says(switch.refuses("mc_node_dissociate 2 0"), "PRE", "ERROR")
    assert says(switch.refuses("mc_node_associate 4 0"), "PRE", "INVALID_MGRP_HANDLE")


@pytest.mark.parametrize(
    ("line", "room"),
    [
        ("mc_node_update 0 1 2 3", 4),
        ("mc_node_update 0 1 2 3", 5),  # for the group, but not for the session to it
        ("mc_node_associate 1 1", 4),
        ("mc_node_associate 1 1", 5),
        ("mc_set_lag_membership 1 4", 4),
        ("mc_set_lag_membership 1 4", 5),
        ("mirroring_add 6 1", 4),
        ("mirroring_add_mc 6 1", 4),
        ("mirroring_add 7 1", 4),
        ("mirroring_add_mc 7 1", 4),
    ],
)
def test_a_refused_change_of_a_group_changes_nothing(
    switch: ShellSwitch, monkeypatch: pytest.MonkeyPatch, line: str, room: int
) -> None:
    switch.does("mc_mgrp_create 1", "mc_node_create 5 1 2 | 1", "mc_node_create 6 3", "mc_node_associate 1 0")
    switch.does("mirroring_add_mc 5 1", "mc_mgrp_create 2", "mirroring_add_mc 7 2")
    monkeypatch.setattr("softswitch.p4runtime.entities.replication.MAX_REPLICAS", room)
    before = switch.does("mc_dump")
    assert f"room for {room} replicas" in switch.refuses(line)
    assert switch.does("mc_dump") == before
    assert switch.does("mirroring_get 5") == ["MirroringSessionConfig(port=None, mgid=1)"]
    assert switch.does("mirroring_get 7") == ["MirroringSessionConfig(port=None, mgid=2)"]
    assert switch.ports_of(frame(2, group=1)) == [1, 2]
    assert sorted(switch.ports_of(frame(1, session=5))) == [1, 2, 9]
    assert sorted(switch.ports_of(frame(1, session=6))) == [9]
    switch.does("mc_node_update 0 1")
    assert switch.ports_of(frame(2, group=1)) == [1]
    assert switch.does("mc_node_destroy 1") == ["Destroying node 1"]
