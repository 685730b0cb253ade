"""Writes as bytes: what takes the short way does, answers and leaves what the long way would."""

from __future__ import annotations

from typing import Any

import pytest
from finsy.proto import p4r
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from softswitch.p4runtime.messages import p4r as ours
from softswitch.p4runtime.plain.request import Request
from switch_harness.effort import examples
from switch_harness.p4runtime import DELETE, INSERT, MODIFY
from switch_harness.plain_writes import (
    ATOMICITIES,
    DROP,
    FORWARD,
    FORWARD_TO,
    PAIRS,
    PLAIN,
    PUNT,
    REQUESTS,
    SET_TAG,
    Batches,
    Twins,
    forward,
    held,
    number,
    request,
    update,
    write_all,
)

# ---- the short way


@pytest.mark.parametrize("atomicity", ATOMICITIES)
def test_plain_writes_take_the_fast_path(atomicity: Any) -> None:
    twins = Twins()
    addresses = range(0, 3000, 3)
    port = {kind: request(*(forward(a, 1 + a % 9, kind) for a in addresses), atomicity=atomicity)
            for kind in (INSERT, MODIFY)}  # fmt: skip
    deleted = request(*(forward(a, None, DELETE) for a in addresses), atomicity=atomicity)
    # An entry replaces another, as the hot set moves; the action of a deleted one is ignored.
    moved = [each for a in addresses for each in (forward(a, 7, DELETE), forward(a + 1, 2))]
    pairs = [update(INSERT, PAIRS, [(1, number(a, 8)), (2, b"\0\1")], (SET_TAG, [(1, b"\0\0\2"), (2, b"\3")]))
             for a in range(4)]  # fmt: skip
    for count, data in enumerate(
        (port[INSERT], port[MODIFY], deleted, port[INSERT], request(*moved, *pairs, atomicity=atomicity)), 1
    ):
        reported = twins.write(data)
        assert not any(reported)
        assert twins.shortcuts == count
    assert len(held(twins.short)) >= 1004


def test_the_head_of_a_request_has_all_its_fields_but_the_updates() -> None:
    data = request(
        forward(5),
        forward(6),
        device_id=2**63 + 5,
        role="röle",
        election_id=p4r.Uint128(high=7, low=2**64 - 1),
    )
    # In another order, and one of them twice.
    data = data[11:] + data[:11] + bytes.fromhex("1a020803")
    found = Request(data)
    assert found.scanned is not None and len(found.scanned.updates) == 2
    whole = ours.WriteRequest.FromString(data)
    assert not found.head.updates and len(whole.updates) == 2
    whole.ClearField("updates")
    assert found.head == whole and found.head.election_id.high == 3


@pytest.mark.parametrize(
    "wrong",
    [
        forward(5),  # twice
        forward(7, kind=MODIFY),
        forward(7, None, DELETE),
        forward(2**48),
        forward(6, 2**9),
        update(INSERT, FORWARD, [(1, b"")], (PUNT, [])),
        update(INSERT, FORWARD, [(2, b"\6")], (PUNT, [])),
        update(INSERT, FORWARD, [], (PUNT, [])),
        update(INSERT, FORWARD, [(1, b"\6"), (1, b"\6")], (PUNT, [])),
        update(INSERT, FORWARD, [(1, b"\6")], (DROP, [])),
        update(INSERT, FORWARD, [(1, b"\6")], (FORWARD_TO, [])),
        update(INSERT, FORWARD, [(1, b"\6")], (PUNT, [(1, b"\1")])),
        update(INSERT, FORWARD, [(1, b"\6")]),
        update(MODIFY, FORWARD, [(1, b"\5")]),
        update(INSERT, FORWARD, [(1, b"\6")], (PUNT, []), priority=1),
        update(INSERT, FORWARD, [(1, b"\6")], (PUNT, []), metadata=b"x"),
        update(INSERT, 77, [(1, b"\6")], (PUNT, [])),
        update(0, FORWARD, [(1, b"\6")], (PUNT, [])),
        update(4, FORWARD, [(1, b"\6")], (PUNT, [])),
        p4r.Update(type=INSERT),
    ],
)  # fmt: skip
def test_an_unusual_or_wrong_update_makes_its_whole_batch_take_the_general_path(wrong: p4r.Update) -> None:
    for atomicity in ATOMICITIES:
        twins = Twins()
        reported = twins.write(request(forward(5), wrong, forward(9), atomicity=atomicity))
        assert twins.shortcuts == 0
        assert len(reported) == 3


def test_the_fast_path_fills_a_table_up_to_its_size() -> None:
    twins = Twins()
    pairs = [update(INSERT, PAIRS, [(1, number(a, 1)), (2, b"\1")], (SET_TAG, [(1, b"\2"), (2, b"\3")]))
             for a in range(5)]  # fmt: skip
    full = [None] * 4 + [twins.write(request(*pairs))[4]]
    assert full[4] is not None and "is full with 4 entries" in full[4][1]
    gone = update(DELETE, PAIRS, [(1, b"\0"), (2, b"\1")])
    assert twins.write(request(pairs[4], gone))[0] == full[4]
    assert twins.shortcuts == 0
    assert twins.write(request(pairs[0])) == [None]
    assert twins.write(request(gone, pairs[4])) == [None, None]
    assert twins.shortcuts == 2


def test_an_overwrite_without_a_cookie_removes_the_cookie() -> None:
    """An entry with a cookie, overwritten without: what is kept beside the pipeline is the long way's."""
    twins = Twins()
    cookie = update(INSERT, FORWARD, [(1, b"\5")], (PUNT, []), metadata=b"cookie")
    assert twins.write(request(cookie)) == [None]
    assert twins.write(request(forward(6))) == [None]
    assert twins.write(request(forward(5, kind=MODIFY))) == [None]
    assert twins.shortcuts == 0
    assert not any(entity.table_entry.metadata for entity in held(twins.short))
    assert twins.write(request(forward(8))) == [None]
    assert twins.shortcuts == 1


def test_a_cookie_in_one_table_leaves_writes_to_other_tables_on_the_fast_path() -> None:
    twins = Twins()
    cookie = update(INSERT, FORWARD, [(1, b"\5")], (PUNT, []), metadata=b"cookie")
    pair = update(INSERT, PAIRS, [(1, b"\1"), (2, b"\1")], (SET_TAG, [(1, b"\2"), (2, b"\3")]))
    assert twins.write(request(cookie)) == [None]
    assert twins.write(request(pair)) == [None]
    assert twins.shortcuts == 1
    deleted = update(DELETE, PAIRS, [(1, b"\1"), (2, b"\1")])
    assert twins.write(request(deleted, forward(5, kind=MODIFY))) == [None, None]
    assert twins.shortcuts == 1
    assert not any(entity.table_entry.metadata for entity in held(twins.short))


def test_handles_follow_writes_to_tables_whose_handles_were_requested() -> None:
    twins = Twins()
    twins.write(request(forward(5), forward(6)))
    name = twins.short.stores[FORWARD].name
    tables = [list(each.handles.handles_and_keys(name)) for each in (twins.short, twins.long)]
    assert len(tables[0]) == 2
    twins.write(request(forward(5, None, DELETE), forward(7)))
    after = [list(each.handles.handles_and_keys(name)) for each in (twins.short, twins.long)]
    assert after[0] == after[1] != tables[0]


# ---- any


TWINS: list[Twins] = []


@settings(max_examples=examples(800), deadline=None)
@given(REQUESTS)
def test_random_requests_are_answered_as_on_the_general_path(batches: Batches) -> None:
    """Some of the requests have changed bytes."""
    if not TWINS:
        TWINS.append(Twins())
    write_all(TWINS[0], batches)


@settings(max_examples=examples(2000), deadline=None)
@given(st.one_of(st.binary(max_size=60), st.tuples(st.lists(PLAIN, max_size=3), st.integers(0, 300))))
def test_bytes_that_are_no_request_are_refused_exactly_if_protobuf_refuses(
    given: bytes | tuple[list[p4r.Update], int],
) -> None:
    """What is cut off too. What is scanned is what protobuf would find."""
    data = given if isinstance(given, bytes) else request(*given[0])[: given[1]]
    try:
        whole = ours.WriteRequest.FromString(data)
    except DecodeError:
        with pytest.raises(DecodeError):
            Request(data)
        return
    found = Request(data)
    assert found.whole == whole
    if found.scanned is not None:
        assert len(found.scanned.updates) == len(whole.updates)
        whole.ClearField("updates")
        assert found.head == whole
