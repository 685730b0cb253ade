"""Prefix, ternary, optional and range matches: softswitch gives packets and controllers what BMv2 gives.

Entries of a table have different priorities: which of two with the same wins is not defined.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from finsy.proto import p4r

from softswitch.conformance.encoding import EntityEncoder
from softswitch.pipeline import Change, EntryWrite
from switch_harness.foreign import read_p4info
from switch_harness.match_kinds import MALFORMED, MATCH_KINDS, random_entries, random_probe, replace_match
from switch_harness.twins import Twins, twins

pytestmark = pytest.mark.bmv2

PROBES = 400
KINDS = ("lpm", "ternary", "range")
ENCODER = EntityEncoder(read_p4info(MATCH_KINDS))


@pytest.fixture
def both() -> Iterator[Twins]:
    with twins(MATCH_KINDS) as started:
        yield started


def test_bmv2_matches_entries_of_each_kind_as_softswitch_does(both: Twins) -> None:
    random = Random(7)
    entries = [entry for kind in KINDS for entry in random_entries(random, kind, 40)]
    for entry in entries:
        assert both.codes(ENCODER.update(entry)) == (0, 0), entry
    for number in range(PROBES):
        frame = random_probe(random) + random.randbytes(random.randrange(40))
        ours, _ = both.expect(2, frame)
        assert ours == both.observe(2, frame), frame.hex()
        if number % 10 == 9:
            gone = entries.pop(random.randrange(len(entries)))
            delete = EntryWrite(Change.DELETE, gone.table, gone.key, None, gone.priority)
            assert both.codes(ENCODER.update(delete)) == (0, 0), delete
    ours_read, theirs_read = both.entries()
    assert ours_read == theirs_read
    assert len(ours_read) == len(entries) + 4  # constant ones


@pytest.mark.parametrize("kind", KINDS)
def test_bmv2_refuses_the_same_malformed_entries_as_softswitch(both: Twins, kind: str) -> None:
    (entry,) = random_entries(Random(1), kind, 1)
    update = p4r.Update.FromString(ENCODER.update(entry).SerializeToString())
    for change in (Change.MODIFY, Change.DELETE):
        assert both.codes(ENCODER.update(entry._replace(change=change))) == (5, 5)
    for table, match, _ in MALFORMED:
        if table == kind:
            malformed = p4r.Update()
            malformed.CopyFrom(update)
            replace_match(malformed.entity.table_entry, match)
            assert both.codes(malformed) == (3, 3), match
    malformed.CopyFrom(update)
    malformed.entity.table_entry.priority = 0 if entry.priority else 1
    assert both.codes(malformed) == (3, 3)
    assert both.codes(update) == (0, 0)
    assert both.codes(update) == (6, 6)
