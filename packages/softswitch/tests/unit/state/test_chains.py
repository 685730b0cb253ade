"""Tables with ranges: writes take steps in chains as if entries were few, and have the same effects."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from softswitch.compiled import CompiledPipeline
from softswitch.conformance.direct import DirectPipeline
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Masked, Program, RangeMatch
from softswitch.load import load_program
from softswitch.pipeline import ActionCall, Change, EntryKey, EntryWrite
from switch_harness import PROGRAMS
from switch_harness.effort import seeds

SIZE = 5_000


def program(size: int) -> Program:
    document = json.loads((PROGRAMS / "match_kinds.json").read_bytes())
    for pipeline in document["pipelines"]:
        for table in pipeline["tables"]:
            if table["name"].endswith(".range_table"):
                table["max_size"] = size
    return load_program(json.dumps(document))


def name_of(chosen: Program) -> str:
    (name,) = [name for name in chosen.tables if name.endswith(".range_table")]
    return name


def call_of(chosen: Program, number: int) -> ActionCall:
    action = chosen.actions[chosen.tables[name_of(chosen)].actions[0]]
    return ActionCall(action.name, tuple(number & (1 << width) - 1 for width in action.parameters))


def key(chosen: Program, number: int) -> tuple[Any, ...]:
    _, *others = chosen.tables[name_of(chosen)].key
    wildcards = [
        RangeMatch(0, (1 << part.width) - 1) if part.kind.value == "range" else Masked(0, 0)
        for part in others
    ]
    return RangeMatch(number, number + number % 3), *wildcards


@pytest.mark.parametrize("order", ["ascending", "descending", "random", "equal"])
def test_steps_grow_with_the_number_of_entries(order: str) -> None:
    """And not with its square, as they would without an index: by 64 instead of 8."""
    steps = {}
    for count in (SIZE // 8, SIZE):
        pipeline = CompiledPipeline(program(SIZE))
        name = name_of(pipeline.program)
        numbers = list(range(count))
        if order == "descending":
            numbers.reverse()
        elif order == "random":
            Random(1).shuffle(numbers)
        entries = [
            EntryKey(name, key(pipeline.program, n), 1 if order == "equal" else 1 + n) for n in numbers
        ]
        inserts, deletes = (
            [
                EntryWrite(change, e.table, e.key, call_of(pipeline.program, 1), e.priority)
                if change is Change.INSERT
                else EntryWrite(change, e.table, e.key, None, e.priority)
                for e in entries
            ]
            for change in (Change.INSERT, Change.DELETE)
        )
        half = count // 2
        for batch in (inserts[:half], *([one] for one in inserts[half:])):
            assert pipeline.tables.write(batch) == [None] * len(batch)
        assert all(pipeline.tables.find(entries))
        assert pipeline.tables.write(deletes[::2]) == [None] * len(deletes[::2])
        steps[count] = pipeline.tables.chain_steps
    assert steps[SIZE] <= 2 * SIZE, steps
    assert steps[SIZE] <= 16 * max(steps[SIZE // 8], 1) + 8, steps


@pytest.mark.parametrize("seed", seeds(8))
@pytest.mark.parametrize("make", [CompiledPipeline, DirectPipeline])
def test_random_writes_as_in_the_interpreter(make: Any, seed: int, kernel_datapath: None) -> None:
    """Full tables, batches with several writes of an entry, and transactions that are undone."""
    random, small = Random(seed), program(12)
    pipelines: list[Any] = [make(small), InterpretedPipeline(small)]
    name = name_of(small)
    for _ in range(120):
        batch = [draw(random, small) for _ in range(random.randrange(1, 9))]
        fails = random.random() < 0.2
        outcomes = []
        for pipeline in pipelines:
            try:
                with pipeline.transaction():
                    outcomes.append([type(result) for result in pipeline.tables.write(batch)])
                    if fails:
                        raise InterruptedError
            except InterruptedError:
                pass
        assert outcomes[0] == outcomes[1]
        tables = [
            {(e.key, e.priority): e.action for e in pipeline.tables.read(name)} for pipeline in pipelines
        ]
        assert tables[0] == tables[1]
        keys = [EntryKey(name, write.key, write.priority) for write in batch]
        found = [[e and e.action for e in pipeline.tables.find(keys)] for pipeline in pipelines]
        assert found[0] == found[1]


def draw(random: Random, chosen: Program) -> EntryWrite:
    change = random.choice([Change.INSERT, Change.INSERT, Change.MODIFY, Change.DELETE])
    action = None if change is Change.DELETE else call_of(chosen, random.randrange(9))
    return EntryWrite(
        change, name_of(chosen), key(chosen, random.randrange(8)), action, random.randrange(1, 4)
    )


def test_an_image_of_another_pipeline_is_indexed() -> None:
    first, second = (CompiledPipeline(program(12)) for _ in range(2))
    name = name_of(first.program)
    writes = [
        EntryWrite(Change.INSERT, name, key(first.program, n), call_of(first.program, n), 1 + n % 3)
        for n in range(9)
    ]
    assert first.tables.write(writes) == [None] * 9
    second.load_image(first.memory_image())
    assert all(second.tables.find([EntryKey(name, write.key, write.priority) for write in writes]))
    deletes = [w._replace(change=Change.DELETE, action=None) for w in writes[::2]]
    assert second.tables.write(deletes) == [None] * 5
    assert len(list(second.tables.read(name))) == 4
