"""A lockstep worker that is killed between two stores into its ledger."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from foundation.protocol.codec import Caller
from hosts import ledger
from hosts.keys import KeySpace
from hosts.ledger import Ledger
from hotline_agents.worker.ops import COMPILED
from hotline_allreduce.ring.agents import AGENTS as RING
from packages.agents.tests.unit.test_worker_crashes import writers_of
from tests.harness.crashing_worker import JOB
from tests.harness.single_step import machine_states

PACKAGE = Path(__file__).parents[2]


def test_a_dense_worker_marks_its_vector_as_sent_after_the_sum_is_stored(tmp_path: Path) -> None:
    path, left = tmp_path / "ledger", tmp_path / "left"
    space, positions = KeySpace(6), np.arange(6)
    book = Ledger(JOB, 1, KeySpace(6), 6, path)
    client = RING.client(Caller(JOB, 1, 1), 0, space, lambda: 0, max_keys=6)
    client.state.header.workers = 1  # which has the sum at once
    deltas = np.arange(1, 7, dtype=np.uint32)

    def open_push() -> Callable[[], None]:
        return partial(client.push, 1, positions, deltas, book.open(positions, deltas))

    open_push()()  # so that the function is compiled
    book.close()
    functions = [cast(Any, COMPILED.start).entry_point_for(client.state)]
    states = machine_states(functions, open_push(), [path])
    assert len(states) > 1
    for (content,) in states:
        left.write_bytes(content)
        sums = ledger.read(left)
        assert (sums.sent + sums.unknown).tolist() == (2 * deltas).tolist()
    assert not sums.lanes_unknown


def test_no_other_function_writes_a_mapped_file() -> None:
    sources = (PACKAGE / "src").rglob("*.py")
    writers = {
        f"{source.parent.name}/{source.name}: {name}"
        for source in sources
        for name in writers_of(ast.parse(source.read_text()), is_file=False)
    }
    assert writers == {"dense/vector.py: end_operation"}
