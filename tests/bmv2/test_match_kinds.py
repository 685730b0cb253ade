"""Prefix, ternary, optional and range matches: softswitch gives packets and controllers what BMv2 gives.

Entries of a table have different priorities: which of two with the same wins is not defined.
"""

from __future__ import annotations

from random import Random

import grpc
import pytest
from finsy.proto import p4r, rpc_status

from softswitch.compiled import CompiledPipeline
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.status import DETAILS_KEY
from softswitch.pipeline import Change, EntryWrite, Output
from tests.bmv2.conftest import Bmv2
from tests.harness.match_kinds import MALFORMED, MATCH_KINDS, random_entries, random_probe, replace_match
from tests.harness.p4rt import load_p4info
from tests.harness.waiting import PATIENCE_S

pytestmark = [pytest.mark.bmv2, pytest.mark.mininet]

PROBES = 400
KINDS = ("lpm", "ternary", "range")


class Twins:
    """BMv2 and softswitch, which get the same P4Runtime messages and the same frames."""

    def __init__(self, bmv2: Bmv2) -> None:
        config = p4r.ForwardingPipelineConfig(
            p4info=load_p4info(MATCH_KINDS.with_suffix(".p4info.txtpb")),
            p4_device_config=MATCH_KINDS.with_suffix(".json").read_bytes(),
        )
        self.bmv2, self.ours = bmv2, ControlledPipeline(config, CompiledPipeline, lambda: 0)
        bmv2.sockets[1].settimeout(PATIENCE_S)

    def write(self, update: p4r.Update) -> tuple[int, int]:
        """The codes that softswitch and BMv2 answer an update with."""
        (refusal,) = self.ours.write(p4r.WriteRequest(updates=[update]))
        error = p4r.Error()
        try:
            self.bmv2.client.update([update])
        except grpc.RpcError as failure:
            trailer = {item.key: item.value for item in failure.trailing_metadata()}[DETAILS_KEY]
            rpc_status.Status.FromString(trailer).details[0].Unpack(error)
        return (refusal.number if refusal else 0), error.canonical_code

    def send(self, frame: bytes) -> tuple[list[Output], list[Output]]:
        """What softswitch and BMv2 send; the program sends everything out of port 1."""
        self.bmv2.sockets[2].send(frame)
        theirs = [Output(1, self.bmv2.sockets[1].recv(4096))]
        return self.ours.pipeline.process(2, frame, 0, 0), theirs

    def read(self) -> tuple[list[bytes], list[bytes]]:
        """All entries with their counters. BMv2 does not say of constant ones that they are."""
        answers: tuple[list[bytes], list[bytes]] = [], []
        for table in self.bmv2.client.p4info.tables:
            query = p4r.TableEntry(table_id=table.preamble.id)
            if table.direct_resource_ids:
                query.counter_data.SetInParent()
            entity = p4r.Entity(table_entry=query)
            responses, _ = self.ours.read(p4r.ReadRequest(entities=[entity]))
            ours = [found for response in responses for found in response.entities]
            for answer, found in zip(answers, (ours, self.bmv2.client.read(entity)), strict=True):
                answer += [_comparable(each.table_entry) for each in found]
        return sorted(answers[0]), sorted(answers[1])


def _comparable(entry: p4r.TableEntry) -> bytes:
    entry.is_const = False
    return entry.SerializeToString(deterministic=True)


def test_bmv2_agrees(bmv2_match_kinds: Bmv2) -> None:
    random, twins = Random(7), Twins(bmv2_match_kinds)
    entries = [entry for kind in KINDS for entry in random_entries(random, kind, 40)]
    for entry in entries:
        assert twins.write(bmv2_match_kinds.client.encode(entry)) == (0, 0), entry
    for number in range(PROBES):
        frame = random_probe(random) + random.randbytes(random.randrange(40))
        ours, theirs = twins.send(frame)
        assert ours == theirs, frame.hex()
        if number % 10 == 9:
            gone = entries.pop(random.randrange(len(entries)))
            delete = EntryWrite(Change.DELETE, gone.table, gone.key, None, gone.priority)
            assert twins.write(bmv2_match_kinds.client.encode(delete)) == (0, 0), delete
    ours_read, theirs_read = twins.read()
    assert ours_read == theirs_read
    assert len(ours_read) == len(entries) + 4  # constant ones


@pytest.mark.parametrize("kind", KINDS)
def test_bmv2_refuses_the_same(bmv2_match_kinds: Bmv2, kind: str) -> None:
    twins = Twins(bmv2_match_kinds)
    (entry,) = random_entries(Random(1), kind, 1)
    encode = bmv2_match_kinds.client.encode
    update = encode(entry)
    for change in (Change.MODIFY, Change.DELETE):
        assert twins.write(encode(entry._replace(change=change))) == (5, 5)
    for table, match, _ in MALFORMED:
        if table == kind:
            malformed = p4r.Update()
            malformed.CopyFrom(update)
            replace_match(malformed.entity.table_entry, match)
            assert twins.write(malformed) == (3, 3), match
    malformed.CopyFrom(update)
    malformed.entity.table_entry.priority = 0 if entry.priority else 1
    assert twins.write(malformed) == (3, 3)
    assert twins.write(update) == (0, 0)
    assert twins.write(update) == (6, 6)
