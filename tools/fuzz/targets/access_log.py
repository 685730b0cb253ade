"""Access logs of any format: steps meet their invariants and do not depend on the size of blocks."""

from __future__ import annotations

import gzip
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from shutil import rmtree
from unittest.mock import patch

import numpy as np

from foundation.errors import DataError
from foundation.logs.access import log_files
from foundation.logs.access.block import read_options
from foundation.logs.access.formats.oracle_general import RECORD
from foundation.logs.access.steps import KEY, Steps, read_steps
from tools.fuzz.target import Target, scratch

_SMALL_BLOCK = 32
_BATCH = 2


def run(data: bytes) -> Hashable:
    path = scratch() / "log"
    path.write_bytes(data)
    with _read(path, skip_bad=True) as found:
        _check(found)
        try:
            with _read(path) as strict:
                assert _same(strict, found), "no row is bad, but skipping bad rows changes the log"
        except DataError:
            assert "skipped" in found.notes[-1], "a row is bad, but none was skipped"
            raise
        # Parsers differ on whether a quote begins or ends a value where RFC 4180 allows no quote.
        if b'"' not in data:
            with patch.object(log_files, "BLOCK_BYTES", _SMALL_BLOCK), _read(path) as in_blocks:
                assert _same(in_blocks, found), "the size of blocks changes the log"
        log_format = found.notes[0].split()[1]  # the word after "log:"
        return min(len(found), 3), min(len(found.tables), 3), found.has_pulls, log_format


@contextmanager
def _read(path: Path, skip_bad: bool = False) -> Iterator[Steps]:
    folder = scratch() / f"arrays-{len(list(scratch().iterdir()))}"
    folder.mkdir()
    try:
        options = read_options(batch=_BATCH, skip_bad=skip_bad, max_bad=1.0)
        yield read_steps([path], options, folder, lambda done, total: None, must_repeat=False)
    finally:
        rmtree(folder)


def _check(steps: Steps) -> None:
    starts, keys = np.array(steps.starts), np.array(steps.accesses & KEY)
    assert starts[0] == 0 and starts[-1] == len(keys) and (np.diff(starts) > 0).all(), "a step has no access"
    assert (steps.keys[1:] > steps.keys[:-1]).all(), "keys are not distinct and ascending"
    assert np.array_equal(np.unique(keys), np.arange(len(steps.keys))), "a key has no access"
    assert len(steps.table_of) == len(steps.keys), "a key has no table"
    assert not steps.tables or steps.table_of.max() < len(steps.tables), "a table has no name"
    assert all(map(str.isprintable, steps.notes)), "a note is not a line of text"
    for first, last in pairwise(starts):
        accesses = steps.accesses[first:last]
        assert len(set(accesses.tolist())) == len(accesses), "a step has an access twice"


def _same(one: Steps, other: Steps) -> bool:
    arrays = ("accesses", "starts", "keys", "table_of")
    is_same = all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays)
    return is_same and one.tables == other.tables


def seeds() -> list[bytes]:
    criteo = "\t".join(["1", *["2"] * 13, *["68fd1e64"] * 25, ""])
    records = np.zeros(3, RECORD)
    records["object"], records["size"], records["next"] = (5, 7, 5), 1, (2, -1, -1)
    return [
        b"iteration,worker,key\n1,1,5\n1,2,5\n2,1,18446744073709551614\n",
        b"iteration,worker,key,op\n1,1,5,push\n1,1,5,pull\n",
        b"user_id:token\titem_id:token\trating:float\ttimestamp:float\n1\t5\t3\t88.5\n2\tx\t4\t87\n",
        b'time,item_id,shop_id\n2,"a, ""b""",7\n1,c,7\n3,,8\n',
        f"{criteo}\n{criteo}\n".encode(),
        b"1 1:1 2:1\n0 3:0.5\n",
        records.tobytes(),
        gzip.compress(b"key,time\n5,1\n6,2\n", mtime=0),
        b'{"item_id": 5, "time": 2}\n{"item_id": 6, "time": 1}\n',
        b'[\n{"item_id": 5, "time": 2},\n{"item_id": 6, "time": 1}\n]\n',
        b"[[5, 6], [], [5]]",
        b"[5, 6, 5]\n",
    ]


TOKENS = (
    b"iteration", b"worker", b"key", b"op", b"push", b"pull", b"time", b"timestamp:float", b"item_id:token",
    b":token_seq", b",", b"\t", b"\n", b"\r\n", b"\r", b'"', b'""', b" ", b";", b"-1", b".5", b"1e3", b"nan",
    b"18446744073709551615", b"9223372036854775808", b"\xef\xbb\xbf", b"\xff", b"\x00", b"PAR1",
    b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd",
)  # fmt: skip
TARGET = Target("access_log", run, ("src/foundation/logs/access",), seeds, TOKENS)
