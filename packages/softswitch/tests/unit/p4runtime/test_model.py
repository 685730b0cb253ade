"""Random batches of writes, good and bad, against a model: results, what is read, and what packets meet."""

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import finsy as fy
import pytest
from finsy.proto import p4r
from hypothesis import given, settings
from hypothesis import strategies as st

from softswitch.compiled import CompiledPipeline
from softswitch.conformance import client
from softswitch.conformance.encoding import EntityEncoder
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Masked, Match, RangeMatch
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.ports import MakePipeline
from softswitch.pipeline import ActionCall, Change, EntryWrite
from switch_harness.effort import examples, seeds
from switch_harness.match_kinds import MALFORMED, MATCH_KINDS, random_key, random_probe, replace_match
from switch_harness.p4runtime import (
    DELETE,
    INSERT,
    MODIFY,
    SCHEMA,
    controlled,
    forward,
    read,
    update,
    write,
)

ADDRESSES, PORTS = range(1, 6), range(1, 4)
Model = dict[Any, int]  # an entry's action parameter by its key
Update = tuple[int, Any, int]  # kind, key or None where the write is malformed, action parameter

UPDATES = st.tuples(
    st.sampled_from([INSERT, MODIFY, DELETE]), st.sampled_from(ADDRESSES), st.sampled_from(PORTS)
)
BATCHES = st.lists(
    st.tuples(st.sampled_from([*p4r.WriteRequest.Atomicity.values()]), st.lists(UPDATES, max_size=8)),
    max_size=6,
)


def step(model: Model, change: Update) -> str:
    kind, key, value = change
    if key is None:
        return "INVALID_ARGUMENT"
    if kind == INSERT and key in model:
        return "ALREADY_EXISTS"
    if kind != INSERT and key not in model:
        return "NOT_FOUND"
    if kind == DELETE:
        del model[key]
    else:
        model[key] = value
    return "OK"


def answers(model: Model, atomicity: Any, batch: list[Update]) -> list[str]:
    after = dict(model)
    codes = [step(after, change) for change in batch]
    if atomicity != p4r.WriteRequest.CONTINUE_ON_ERROR and set(codes) - {"OK"}:
        return ["ABORTED" if code == "OK" else code for code in codes]
    model.clear()
    model.update(after)
    return codes


@pytest.mark.parametrize("make", [InterpretedPipeline, CompiledPipeline])
def test_random_writes_equal_the_model(make: MakePipeline[Any]) -> None:
    @settings(max_examples=examples(50))
    @given(BATCHES)
    def check(batches: list[tuple[Any, list[Update]]]) -> None:
        control = controlled(make=make)
        model: Model = {}
        for atomicity, batch in batches:
            updates = [update(forward(address, port), kind) for kind, address, port in batch]
            results = write(control, *updates, atomicity=atomicity)
            codes = [result.code.name if result else "OK" for result in results]
            assert codes == answers(model, atomicity, batch)
            entries = read(control, fy.P4TableEntry("forward").encode(SCHEMA))
            entries.sort(key=lambda entity: entity.table_entry.match[0].exact.value)
            assert entries == [forward(*item).encode(SCHEMA) for item in sorted(model.items())]
            for address in ADDRESSES:
                outputs = control.pipeline.process(1, address.to_bytes(6, "big") + bytes(58), 0, 0)
                assert [out.port for out in outputs] == ([model[address]] if address in model else [])

    check()


# ---- tables of every match kind

Key = tuple[str, tuple[Match, ...], int]  # kind, matches, priority
ENCODER = EntityEncoder(client.read_p4info(MATCH_KINDS))
RESULTS_AT = {"lpm": 21, "ternary": 23, "range": 25}
"""Offset in a frame of the parameter of the hit entry."""


def entry(change: Change, key: Key, value: int) -> p4r.Update:
    kind, matches, priority = key
    call = ActionCall(f"Pick.{kind}_hit", (value,))
    update = ENCODER.update(EntryWrite(change, f"Pick.{kind}_table", matches, call, priority))
    return p4r.Update.FromString(update.SerializeToString())


def malform(random: Random, kind: str, message: p4r.TableEntry) -> None:
    matches = [match for table, match, _ in MALFORMED if table == kind]
    spoil: list[Callable[[], object]] = [
        lambda: replace_match(message, random.choice(matches)),
        lambda: setattr(message, "priority", 0 if message.priority else 1),
        lambda: setattr(message, "priority", -1),
        lambda: message.match.add(field_id=9),
        lambda: message.match.extend([message.match[0]] if message.match else [p4r.FieldMatch(field_id=1)]),
        lambda: setattr(message, "table_id", 1),
        lambda: setattr(message, "is_const", True),
    ]
    random.choice(spoil)()


def hits(match: Match, value: int) -> bool:
    match match:
        case RangeMatch(low, high):
            return low <= value <= high
        case Masked(wanted, mask):
            return value & mask == wanted
    return value == match


def best(model: Model, kind: str, values: tuple[int, ...]) -> set[int]:
    """The parameters of the entries of highest rank that match, or the 0 of a miss."""
    ranked = [
        (matches[1].mask.bit_count() if isinstance(matches[1], Masked) and kind == "lpm" else priority, value)
        for (table, matches, priority), value in model.items()
        if table == kind and all(map(hits, matches, values))
    ]
    return {value for rank, value in ranked if rank == max(ranked)[0]} or {0}


def check_packet(control: ControlledPipeline[Any], model: Model, frame: bytes) -> None:
    prefix, exact, ranged, small, wide = (
        int.from_bytes(frame[start:end], "big") for start, end in pairwise([0, 4, 6, 8, 9, 21])
    )
    values = {"lpm": (exact, prefix), "ternary": (wide, small), "range": (ranged, small, wide)}
    (output,) = control.pipeline.process(0, frame, 0, 0)
    for kind, at in RESULTS_AT.items():
        assert int.from_bytes(output.frame[at : at + 2], "big") in best(model, kind, values[kind])


def draw(random: Random, pool: list[Key]) -> tuple[p4r.Update, Update]:
    """Draw an update, one in four of them malformed, as a message and for the model."""
    change, key, value = random.choice(list(Change)), random.choice(pool), random.randrange(1, 1000)
    message = entry(change, key, value)
    malformed = random.random() < 0.25
    if malformed:
        malform(random, key[0], message.entity.table_entry)
    return message, (change.value, None if malformed else key, value)


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("make", [InterpretedPipeline, CompiledPipeline])
def test_random_writes_of_every_match_kind_equal_the_model(make: MakePipeline[Any], seed: int) -> None:
    random = Random(seed)
    control, model = controlled(MATCH_KINDS, make), Model()
    constant = [e.SerializeToString() for e in read(control, p4r.Entity(table_entry=p4r.TableEntry()))]
    pool = [
        (kind, random_key(random, kind), 0 if kind == "lpm" else random.randrange(1, 4))
        for kind in RESULTS_AT
        for _ in range(20)
    ]
    for _ in range(80):
        drawn = [draw(random, pool) for _ in range(random.randrange(1, 8))]
        atomicity = random.choice(p4r.WriteRequest.Atomicity.values())
        results = write(control, *(message for message, _ in drawn), atomicity=atomicity)
        codes = [result.code.name if result else "OK" for result in results]
        assert codes == answers(model, atomicity, [change for _, change in drawn])
        found = [e.SerializeToString() for e in read(control, p4r.Entity(table_entry=p4r.TableEntry()))]
        wanted = [entry(Change.INSERT, *item).entity.SerializeToString() for item in model.items()]
        assert sorted(found) == sorted(wanted + constant)
        for _ in range(5):
            check_packet(control, model, random_probe(random))
