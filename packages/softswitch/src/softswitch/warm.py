"""`python -m softswitch.warm` compiles the switch's own code at set-up; numba caches it on disk."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nativekit.records import records_from_rows
from softswitch import ir
from softswitch.memory.layout import make_layout
from softswitch.memory.rows import Words
from softswitch.memory.words import WORD_BYTES
from softswitch.p4runtime.plain.encode import ActionRow, FieldRow, TableRow, encode
from softswitch.p4runtime.plain.request import Request
from softswitch.p4runtime.plain.scan import UPDATE_COLUMNS, VALUE_COLUMNS
from softswitch.ports import forwarding
from softswitch.ports.loop import PortLoop
from softswitch.ports.options import PortOptions
from softswitch.queues.shape import DEFAULT_DEPTH, UNLIMITED, Shape
from softswitch.state.entries import Entries
from softswitch.state.memory import Memory

# A WriteRequest with one DELETE: of the entry of table 1 whose match field 1 has the value 1.
_DELETE_REQUEST = bytes.fromhex("2211 0803 120d 120b 0801 1207 0801 1203 0a0101")
_SUBPROCESS_SOURCE = (
    "import sys; sys.path.insert(0, {!r}); from softswitch.warm import warm_entries; warm_entries()"
)


def warm() -> None:
    """Compile what a switch without queues, impairments and pcap files needs to start.

    With two cores or more, a subprocess compiles half of it.
    """
    with _compile_in_subprocess(), _disable_collection():
        PortLoop({}, PortOptions(cpu_port=1)).close()
        warm_scan()
        warm_encode()
    with _disable_collection():
        warm_tables()


def warm_all() -> None:
    """Compile what any switch needs: the loop with queues, impairments and pcap files, too."""
    warm()
    with _disable_collection():
        PortLoop({}, PortOptions(cpu_port=1, shapes={1: Shape(UNLIMITED, DEFAULT_DEPTH)})).close()


@contextlib.contextmanager
def _compile_in_subprocess() -> Iterator[None]:
    """Compile code of entries in a subprocess during the block; ignore a failure of the subprocess."""
    if len(os.sched_getaffinity(0)) == 1:
        yield
        return
    package_root = str(Path(__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", _SUBPROCESS_SOURCE.format(package_root)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield
        except BaseException:
            process.kill()
            raise


@contextlib.contextmanager
def _disable_collection() -> Iterator[None]:
    """Keep the garbage collector from searching numba's many objects, none of which it can free."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def is_cold() -> bool:
    return not any(Path(forwarding.run.stats.cache_path).glob("*.nbc"))  # type: ignore[attr-defined]  # numba's


def warm_tables() -> None:
    """Compile, or load from the cache, all code of tables and of their writes."""
    warm_entries()
    warm_scan()
    warm_encode()


def warm_entries() -> None:
    empty_program = ir.Program(
        headers=(),
        stacks=(),
        errors={},
        parser=(),
        start_state=0,
        actions=(),
        ingress=ir.Control("ingress", None, {}),
        egress=ir.Control("egress", None, {}),
        deparser=(),
        field_index={},
    )
    layout = make_layout(empty_program)
    Entries(empty_program, layout, Memory(layout.work * WORD_BYTES), [])


def warm_scan() -> None:
    assert Request(_DELETE_REQUEST).scanned is not None


def warm_encode() -> None:
    data = np.frombuffer(_DELETE_REQUEST, np.uint8)
    updates = np.empty((0, UPDATE_COLUMNS), np.int64)
    values = np.empty((0, VALUE_COLUMNS), np.int64)
    tables, actions, fields = (
        records_from_rows(TableRow, []),
        records_from_rows(ActionRow, []),
        records_from_rows(FieldRow, []),
    )
    ops: Words = np.zeros(0, np.uint64)
    encode(data, updates, values, tables, actions, fields, ops, np.zeros(1, np.int64))


if __name__ == "__main__":
    warm_all()
