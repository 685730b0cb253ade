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

from nativekit.records import filled
from softswitch import ir
from softswitch.memory.layout import make_layout
from softswitch.memory.rows import Words
from softswitch.p4runtime.plain.encode import ActionRow, FieldRow, TableRow, encode
from softswitch.p4runtime.plain.request import Request
from softswitch.ports import forwarding
from softswitch.ports.loop import PortLoop
from softswitch.state.entries import Entries
from softswitch.state.memory import Memory

_DELETION = bytes.fromhex("2211 0803 120d 120b 0801 1207 0801 1203 0a0101")


_TABLES = "import sys; sys.path.insert(0, {!r}); from softswitch.warm import warm_tables; warm_tables()"


def warm() -> None:
    """Create a port loop and tables, which compiles their code; on two cores, at the same time."""
    with _compiling_tables(), _no_collection(), PortLoop({}, cpu_port=1):
        pass
    with _no_collection():
        warm_tables()


@contextlib.contextmanager
def _compiling_tables() -> Iterator[None]:
    """Compile the tables in another process during the block, without regard to its success."""
    if len(os.sched_getaffinity(0)) == 1:
        yield
        return
    source = str(Path(__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", _TABLES.format(source)],
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
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector from searching numba's many objects, none of which it can free."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def is_cold() -> bool:
    return not any(Path(forwarding.run.stats.cache_path).glob("*.nbi"))  # type: ignore[attr-defined]  # numba's


def warm_tables() -> None:
    nothing = ir.Program(
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
    layout = make_layout(nothing)
    Entries(nothing, layout, Memory(layout.work * 8), [])
    _warm_plain_writes()


def _warm_plain_writes() -> None:
    scanned = Request(_DELETION).scanned
    assert scanned is not None
    tables, actions, fields = filled(TableRow, []), filled(ActionRow, []), filled(FieldRow, [])
    ops: Words = np.zeros(0, dtype=np.uint64)
    starts = np.zeros(1, dtype=np.int64)
    encode(scanned.data, scanned.updates[:0], scanned.values, tables, actions, fields, ops, starts)


if __name__ == "__main__":
    warm()
