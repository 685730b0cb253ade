"""Multicast groups and clone sessions: what is written to the pipeline, and the limit of replicas."""

from typing import Any

import pytest
from finsy.proto import p4r

from softswitch.p4runtime.entities import replication
from softswitch.pipeline import Replica
from switch_harness.entity_model import entity
from switch_harness.model_pipeline import ModelPipeline
from switch_harness.p4runtime import DELETE, ENTITIES, INSERT, MODIFY, Control, controlled, read, write
from switch_harness.wording import says


@pytest.fixture
def control() -> Control:
    return controlled(ENTITIES, ModelPipeline)


def multicast(kind: Any, group: int, *replicas: tuple[int, int]) -> p4r.Update:
    answer = entity(("multicast", group), replicas)
    return p4r.Update(type=kind, entity=answer)


def clone(kind: Any, session: int, *replicas: tuple[int, int]) -> p4r.Update:
    answer = entity(("clone", session), (64, replicas))
    return p4r.Update(type=kind, entity=answer)


def test_copies_are_reported_in_order_and_read_as_written(control: Control) -> None:
    changes = [multicast(INSERT, 1, (5, 0), (3, 0)), clone(INSERT, 2, (7, 0))]
    changes[0].entity.packet_replication_engine_entry.multicast_group_entry.metadata = b"note"
    assert write(control, *changes) == [None, None]
    assert control.pipeline.multicast[1] == [Replica(3, 0), Replica(5, 0)]
    assert control.pipeline.clones[2] == ([Replica(7, 0)], 64)
    assert read(control, *(change.entity for change in changes)) == [change.entity for change in changes]


def test_the_deprecated_egress_port_is_a_port_too(control: Control) -> None:
    change = multicast(INSERT, 1)
    change.entity.packet_replication_engine_entry.multicast_group_entry.replicas.add(egress_port=9)
    assert write(control, change) == [None]
    assert control.pipeline.multicast[1] == [Replica(9, 0)]


def test_deleted_groups_and_sessions_make_no_copies(control: Control) -> None:
    assert not any(write(control, multicast(INSERT, 1, (5, 0)), clone(INSERT, 2, (5, 0))))
    assert not any(write(control, multicast(DELETE, 1), clone(DELETE, 2)))
    assert (control.pipeline.multicast[1], control.pipeline.clones[2][0]) == ([], [])


def test_all_groups_and_sessions_share_the_room(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replication, "MAX_REPLICAS", 3)
    assert not any(write(control, multicast(INSERT, 1, (5, 0), (6, 0)), clone(INSERT, 1, (5, 0))))
    for change in (multicast(MODIFY, 1, (1, 0), (2, 0), (3, 0)), clone(INSERT, 3, (1, 0))):
        (result,) = write(control, change)
        assert result is not None
        assert result.code.name == "RESOURCE_EXHAUSTED"
        assert says(str(result), 3, "sessions")
    assert write(control, multicast(MODIFY, 1, (1, 0), (2, 0))) == [None]
    assert write(control, clone(DELETE, 1), multicast(MODIFY, 1, (1, 0), (2, 0), (3, 0))) == [None, None]


def test_a_replication_entry_without_group_or_session_is_refused(control: Control) -> None:
    neither = p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry())
    (result,) = write(control, p4r.Update(type=INSERT, entity=neither))
    text = "the packet replication engine entry is neither a multicast group nor a clone session"
    assert str(result) == text


@pytest.mark.parametrize("wanted", [("multicast", 9, ()), ("clone", 9, (0, ()))])
def test_a_missing_group_or_session_cannot_be_read(control: Control, wanted: tuple[str, int, object]) -> None:
    kind, number, value = wanted
    with pytest.raises(Exception, match="9 is not there"):
        read(control, entity((kind, number), value))
