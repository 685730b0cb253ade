"""An update log in CSV: the counts of its keys are those that Python's `csv` module reads."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Hashable
from contextlib import suppress

from foundation.logs.counts import Counts, has_columns_of_counts
from tools.fuzz.target import Target, scratch


def run(data: bytes) -> Hashable:
    path = scratch() / "log.csv"
    path.write_bytes(data)
    is_log = has_columns_of_counts(path)
    counts = Counts.of_logs([path])
    found = {key: updates for part in counts.by_key() for key, updates in part.iter_rows()}
    assert sum(found.values()) == counts.total
    with suppress(csv.Error):
        assert found == _counts_by_csv(data), "Python's csv counts differently"
    return is_log, min(len(found), 3)


def _counts_by_csv(data: bytes) -> dict[int, int]:
    """Return updates by key; raise `csv.Error` for a quote where RFC 4180 allows none."""
    # To Polars a lone \r is a space, to `csv` the end of a line.
    text = re.sub("\r(?!\n)", " ", data.decode("utf-8-sig", "replace"))
    rows = filter(None, csv.reader(io.StringIO(text, newline=""), strict=True))
    names = next(rows)
    counts: Counter[int] = Counter()
    for row in rows:
        # If columns have the same name, the first is used.
        values = dict(reversed(list(zip(names, row, strict=False))))
        counts[int(values["key"])] += int(values["updates"]) if {"key", "updates"} <= set(names) else 1
    return {key: updates for key, updates in counts.items() if updates}


def seeds() -> list[bytes]:
    return [
        b"iteration,worker,key\n1,1,5\n1,2,5\n2,1,18446744073709551615\n",
        b"key,updates\n5,2\n6,0\n5,1\n",
        b'\xef\xbb\xbfjob,"key",note,updates\r\n1,5,"a, ""b""\n",3\r\n1,6,,4\r\n',
    ]


TOKENS = (
    b"iteration,worker,key\n", b"key,updates\n", b"key", b"updates", b"iteration", b"worker", b"job", b",",
    b'"', b'""', b"\n", b"\r\n", b"\r", b" ", b"\t", b"#", b"18446744073709551615", b"18446744073709551616",
    b"9223372036854775807", b"+", b"-", b".0", b"\xef\xbb\xbf", b"\xff", b"null", b"NaN", b";",
)  # fmt: skip
TARGET = Target("update_log", run, ("src/foundation/logs",), seeds, TOKENS)
