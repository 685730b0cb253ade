"""Write requests as bytes and as messages, to two pipelines with the same program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from finsy.proto import p4r
from google.protobuf.message import DecodeError
from hypothesis import strategies as st

from softswitch.compiled import CompiledPipeline
from softswitch.p4runtime.messages import adopt
from softswitch.p4runtime.messages import p4r as ours
from softswitch.p4runtime.plain.request import Request
from softswitch.p4runtime.status import Refusal
from switch_harness.p4runtime import DELETE, INSERT, MODIFY, Control, controlled, identity, read

FORWARD, PAIRS, TYPES = (identity(name) for name in ("forward", "pairs", "types"))
SET_TAG, PUNT, FORWARD_TO, DROP = (identity(name) for name in ("set_tag", "punt", "forward_to", "drop"))
ATOMICITIES = (
    p4r.WriteRequest.CONTINUE_ON_ERROR,
    p4r.WriteRequest.ROLLBACK_ON_ERROR,
    p4r.WriteRequest.DATAPLANE_ATOMIC,
)
EVERYTHING = [
    p4r.Entity(table_entry=p4r.TableEntry(counter_data=p4r.CounterData())),
    p4r.Entity(table_entry=p4r.TableEntry(is_default_action=True)),
]
Outcome = list[tuple[Any, str] | None] | str


class Twins:
    """The same program twice: one is given requests as bytes, the other as messages."""

    def __init__(self, make: Any = CompiledPipeline) -> None:
        self.short, self.long = (controlled(make=make) for _ in range(2))
        self.shortcuts = 0
        assert self.short._plain_writer is not None
        write = self.short._plain_writer.write

        def counting(scanned: Any, tracked_tables: Any) -> bool:
            done = write(scanned, tracked_tables)
            self.shortcuts += done
            return done

        # A method of one object is replaced, to count its calls: mypy takes that for a mistake.
        self.short._plain_writer.write = counting  # type: ignore[method-assign]

    def write(self, data: bytes) -> Outcome:
        """What both answer, with what both have afterwards alike."""
        reported = outcome(lambda: self.short.write_bytes(Request(data)))
        assert reported == outcome(lambda: self.long.write(ours.WriteRequest.FromString(data)))
        assert held(self.short) == held(self.long)
        return reported


def outcome(write: Any) -> Outcome:
    try:
        results: list[Refusal | None] = write()
    except DecodeError:
        return "no request"
    except Refusal as refusal:
        return [(refusal.code, str(refusal))]
    return [None if result is None else (result.code, str(result)) for result in results]


def held(control: Control) -> list[p4r.Entity]:
    return read(control, *EVERYTHING)


def number(value: int, size: int = 0) -> bytes:
    return value.to_bytes(max(size, (value.bit_length() + 7) // 8), "big")


def forward(address: int, port: int | None = 1, kind: int = INSERT) -> p4r.Update:
    return update(
        kind, FORWARD, [(1, number(address, 1))], None if port is None else (FORWARD_TO, [(1, number(port))])
    )


def update(
    kind: int,
    table: int,
    match: Sequence[tuple[int, bytes]],
    action: tuple[int, Sequence[tuple[int, bytes]]] | None = None,
    **more: Any,
) -> p4r.Update:
    entry = p4r.TableEntry(table_id=table, **more)
    for field, value in match:
        entry.match.add(field_id=field).exact.value = value
    if action is not None:
        entry.action.action.action_id = action[0]
        for param, value in action[1]:
            entry.action.action.params.add(param_id=param, value=value)
    # Any number, and not only those of the enumeration: what is wrong is refused, too.
    return p4r.Update(type=kind, entity=p4r.Entity(table_entry=entry))  # type: ignore[arg-type]


def request(*updates: p4r.Update, atomicity: Any = ATOMICITIES[0], **more: Any) -> bytes:
    return p4r.WriteRequest(updates=updates, atomicity=atomicity, **more).SerializeToString()


VALUES = st.one_of(
    st.integers(0, 5).map(lambda value: number(value, 1)),
    st.sampled_from([b"", b"\0\0\0\5", b"\0" * 9 + b"\3", b"\xff" * 6, b"\1" + b"\0" * 6, b"\1" * 20]),
)
MATCHES = st.one_of(
    VALUES.map(lambda value: [(1, value)]),
    st.tuples(VALUES, VALUES).map(lambda both: [(1, both[0]), (2, both[1])]),
    st.tuples(VALUES, VALUES).map(lambda both: [(2, both[1]), (1, both[0])]),
    st.lists(st.tuples(st.integers(0, 3), VALUES), max_size=3),
)
ACTIONS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    VALUES.map(lambda value: (FORWARD_TO, [(1, value)])),
    st.tuples(VALUES, VALUES).map(lambda both: (SET_TAG, [(1, both[0]), (2, both[1])])),
    st.just((PUNT, [])),
    st.tuples(
        st.sampled_from([SET_TAG, PUNT, FORWARD_TO, DROP, 0, 99]),
        st.lists(st.tuples(st.integers(0, 3), VALUES), max_size=3),
    ),
)
PLAIN = st.one_of(
    st.builds(forward, st.integers(0, 5), st.integers(1, 3), st.sampled_from([INSERT, MODIFY])),
    st.builds(forward, st.integers(0, 5), st.none(), st.just(DELETE)),
    st.builds(
        lambda kind, a, b: update(
            kind, PAIRS, [(1, number(a, 1)), (2, number(b, 1))], (SET_TAG, [(1, b"\2"), (2, b"\3")])
        ),
        st.sampled_from([INSERT, MODIFY, DELETE]),
        st.integers(0, 2),
        st.integers(0, 2),
    ),
)
ANY = st.builds(
    update,
    st.sampled_from([INSERT, INSERT, INSERT, MODIFY, DELETE, 0, 4]),
    st.sampled_from([FORWARD, FORWARD, PAIRS, PAIRS, TYPES, 0, 77]),
    MATCHES,
    ACTIONS,
)
BATCHES = st.one_of(st.lists(PLAIN, max_size=6), st.lists(st.one_of(PLAIN, ANY), max_size=6))
NOISE = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3)
Batches = list[tuple[list[p4r.Update], Any, list[tuple[int, int]]]]
REQUESTS: st.SearchStrategy[Batches] = st.lists(
    st.tuples(BATCHES, st.sampled_from(ATOMICITIES), st.one_of(st.just([]), st.just([]), NOISE)),
    max_size=6,
)


def write_all(twins: Twins, batches: Batches) -> None:
    """Give both the requests. Tables are emptied afterwards: to make them takes longest."""
    for updates, atomicity, noise in batches:
        data = bytearray(request(*updates, atomicity=atomicity))
        for at, byte in noise:
            if data:
                data[at % len(data)] = byte
        twins.write(bytes(data))
    for control in (twins.short, twins.long):
        entries = [entity for entity in held(control) if entity.table_entry.match]
        gone = [p4r.Update(type=DELETE, entity=entity) for entity in entries]
        control.write(adopt(p4r.WriteRequest(updates=gone)))
