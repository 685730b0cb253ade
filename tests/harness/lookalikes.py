"""Look-alikes of the logs that people have, and the accesses that were written into each.

A look-alike is a text in one of many dialects; `Accesses` says which keys of which table each row has,
in the order of time. They know nothing of the code that reads logs.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import random
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import zstandard

from foundation.logs.access.steps import KEY, PULL, Steps

Accesses = list[list[tuple[str, object]]]
"""Table (an empty name if there is one only) and key of each access, by row."""
SEPARATORS = (",", "\t", ";", "|", "::", " ")
PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda data: data,
    "gzip": gzip.compress,
    "zstd": zstandard.compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "zlib": zlib.compress,
}
LINE_ENDS = ("\n", "\r\n", "\r")


class Lookalike(NamedTuple):
    lines: list[str]
    accesses: Accesses
    columns: str | None = None
    """Options that it cannot be read without."""
    pulls: list[bool] | None = None

    def data(self, line_end: str, ends: bool = True) -> bytes:
        """Return the text; with `ends`, its last line has an end, too."""
        return (line_end.join(self.lines) + line_end * ends).encode()


class _Draw:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def key(self, below: int) -> int:
        return min(int(self._random.paretovariate(0.8)), below) - 1

    def number(self, first: int, last: int) -> int:
        return self._random.randint(first, last)

    def choice(self, values: Sequence[str]) -> str:
        return self._random.choice(values)

    def sample(self, values: Sequence[str], count: int) -> list[str]:
        return self._random.sample(values, count)


Row = tuple[list[str], list[tuple[str, object]]]
"""The cells of a row, and its accesses."""


class TableKind(NamedTuple):
    """A kind of table: what its rows are, in each dialect."""

    header: list[str]
    row: Callable[[_Draw, int], Row]
    without_header: bool = True  # whether it can be told without a header
    tables: tuple[str, str] | None = None  # names of the tables with a header; without one, their numbers
    excluded: str = ""  # separators that are in its values
    columns: str | None = None


def _user_item(draw: _Draw, at: int) -> Row:
    user, item = 10 + draw.key(40), 1000 + draw.key(90)
    return [str(user), str(item)], [("first", user), ("second", item)]


def _rating(draw: _Draw, at: int) -> Row:
    cells, keys = _user_item(draw, at)
    return [*cells, draw.choice(["1", "2.5", "3", "4", "5"]), str(1_260_759_144 + 7 * at)], keys


def _trace(draw: _Draw, at: int) -> Row:
    key = 100 + draw.key(90)
    return [str(at), str(key), str(key * 37 % 4000 + 10)], [("", key)]


def _text_pair(draw: _Draw, at: int) -> Row:
    user, item = f"A{draw.key(40):05d}XQ", f"B00{draw.key(90):06d}"
    return [user, item, "5"], [("first", user), ("second", item)]


def _book(draw: _Draw, at: int) -> Row:
    book = draw.key(70)
    isbn = f"{100_000_007 * (book + 1) % 10**9:09d}{'0123456789X'[book % 11]}"
    return [str(10 + draw.key(40)), isbn, str(draw.number(0, 10))], [("", isbn)]


def _hash(draw: _Draw, at: int) -> Row:
    text = f"{hash_of(draw.key(90)):016x}"
    return [str(1_500_000_000 + at), text], [("", text)]


def hash_of(number: int) -> int:
    return (number + 1) * 0x9E3779B97F4A7C15 % 2**64


def _url(draw: _Draw, at: int) -> Row:
    url = f"http://x.org/a/{draw.key(90)}?q={at % 3}"
    return [str(1_500_000_000 + at), url], [("", url)]


def _numbered(draw: _Draw, at: int) -> Row:
    cells, keys = _user_item(draw, at)
    return [str(at + 1), *cells, str(draw.number(1, 99))], keys


def _dated(form: str) -> Callable[[_Draw, int], Row]:
    def row(draw: _Draw, at: int) -> Row:
        key = 100 + draw.key(90)
        return [form.format(at // 60, at % 60), str(key)], [("", key)]

    return row


def _genres(draw: _Draw, at: int) -> Row:
    genres = draw.sample(["Action", "Drama", "War", "Comedy", "Crime"], draw.number(1, 3))
    return [str(draw.number(1, 9)), "|".join(genres)], [("", genre) for genre in genres]


TABLES: dict[str, TableKind] = {
    "user and item": TableKind(["user_id", "item_id"], _user_item, tables=("user_id", "item_id")),
    "ratings": TableKind(
        ["user_id", "item_id", "rating", "timestamp"], _rating, tables=("user_id", "item_id")
    ),
    "trace": TableKind(["time", "obj_id", "size"], _trace),
    "texts": TableKind(["reviewerID", "asin", "overall"], _text_pair, tables=("reviewerID", "asin")),
    "books": TableKind(["user", "isbn", "rating"], _book, columns="key=2"),
    "hashes": TableKind(["ts", "key"], _hash),
    "urls": TableKind(["time", "url"], _url),
    "row numbers": TableKind(["id", "user_id", "item_id", "price"], _numbered, tables=("user_id", "item_id")),
    "dates": TableKind(["event_time", "item_id"], _dated("2019-10-01 00:{:02d}:{:02d}"), excluded=" "),
    "dates, UTC": TableKind(
        ["event_time", "item_id"], _dated("2019-10-01 00:{:02d}:{:02d} UTC"), excluded=" "
    ),
    "dates, offset": TableKind(
        ["event_time", "item_id"], _dated("2019-10-01 00:{:02d}:{:02d}+00:00"), excluded=" "
    ),
    "dates, T": TableKind(["event_time", "item_id"], _dated("2019-10-01T00:{:02d}:{:02d}.25Z")),
    "genres": TableKind(["movieId", "genres"], _genres, excluded="|", columns="key=2"),
}
_ROWS = 120


def table(kind: str, separator: str, has_header: bool, seed: int = 1, rows: int = _ROWS) -> Lookalike:
    draw, form = _Draw(seed), TABLES[kind]
    made = [form.row(draw, at) for at in range(rows)]
    cells = [form.header] if has_header else []
    cells += [row for row, _ in made]
    names = form.tables
    if names is not None and not has_header:
        names = (str(form.header.index(names[0]) + 1), str(form.header.index(names[1]) + 1))
    accesses = [[(_table_name(names, name), key) for name, key in keys] for _, keys in made]
    return Lookalike([separator.join(row) for row in cells], accesses, form.columns)


def _table_name(names: tuple[str, str] | None, name: str) -> str:
    return name if names is None else names[name == "second"]


def _column(draw: _Draw) -> Lookalike:
    keys = [0, 1, *(draw.key(90) for _ in range(_ROWS))]
    return Lookalike([str(key) for key in keys], [[("", key)] for key in keys])


def _lirs(draw: _Draw) -> Lookalike:
    keys = [draw.key(90) for _ in range(_ROWS)]
    return Lookalike([*map(str, keys[:50]), "*", *map(str, keys[50:])], [[("", key)] for key in keys])


def _column_of_urls(draw: _Draw) -> Lookalike:
    keys = [f"/wiki/Page_{draw.key(90)}.html?a=1,2" for _ in range(_ROWS)]
    return Lookalike(keys, [[("", key)] for key in keys])


def _lists(draw: _Draw) -> Lookalike:
    rows = [[draw.key(200) for _ in range(draw.number(1, 12))] for _ in range(_ROWS)]
    lines = [" ".join(map(str, (user, *items))) for user, items in enumerate(rows)]
    return Lookalike(lines, [[("", item) for item in items] for items in rows])


def _baskets(draw: _Draw) -> Lookalike:
    rows = [[draw.key(200) for _ in range(draw.number(1, 12))] for _ in range(_ROWS)]
    return Lookalike(
        [" ".join(map(str, items)) + " " for items in rows], [[("", each) for each in row] for row in rows]
    )


def _operations(draw: _Draw) -> Lookalike:
    header = "op_time,key,key_size,op,op_count,size,cache_hits,ttl,usecase,sub_usecase"
    lines, accesses, pulls = [header], Accesses(), list[bool]()
    for at in range(_ROWS):
        key, op, count = f"{hash_of(draw.key(60)):x}", draw.choice(["GET", "GET", "SET"]), draw.number(0, 4)
        lines.append(f"{at // 3},{key},36,{op},{count},{draw.number(1, 9)},0,0,7,8")
        accesses += [[("", key)]] * count
        pulls += [op == "GET"] * count
    return Lookalike(lines, accesses, pulls=pulls)


def _json(draw: _Draw) -> Lookalike:
    lines, accesses = list[str](), Accesses()
    for at in range(_ROWS):
        user, item = f"u{draw.key(40)}", draw.key(90)
        fields = {"user_id": user, "item_id": item, "overall": 5.0, "unixReviewTime": 1_400_000_000 + at}
        lines.append(json.dumps({**fields, "text": 'a "b", {c}\n'}))
        accesses.append([("user_id", user), ("item_id", item)])
    return Lookalike(lines, accesses)


def _json_lists(draw: _Draw) -> Lookalike:
    rows = [[draw.key(200) for _ in range(draw.number(0, 5))] for _ in range(_ROWS)]
    lines = [json.dumps({"clicks": items, "label": at % 2}) for at, items in enumerate(rows)]
    return Lookalike(lines, [[("", item) for item in items] for items in rows if items])


def _in_array(lines: list[str]) -> list[str]:
    """Return lines of JSON as one array, which begins and ends with lines of its own."""
    return ["[", *(f"  {line}," for line in lines[:-1]), f"  {lines[-1]}", "]"]


def _json_array(draw: _Draw) -> Lookalike:
    found = _json(draw)
    return found._replace(lines=_in_array(found.lines))


def _json_array_of_lists(draw: _Draw) -> Lookalike:
    rows = [[f"k{draw.key(200)}" for _ in range(draw.number(0, 5))] for _ in range(_ROWS)]
    accesses: Accesses = [[("", each) for each in row] for row in rows if row]
    return Lookalike(_in_array([*map(json.dumps, rows)]), accesses)


def _json_array_of_keys(draw: _Draw) -> Lookalike:
    keys = [draw.key(90) for _ in range(_ROWS)]
    return Lookalike(_in_array([*map(str, keys)]), [[("", key)] for key in keys])


def _libsvm(draw: _Draw) -> Lookalike:
    rows = [sorted({draw.key(200) for _ in range(draw.number(1, 9))}) for _ in range(_ROWS)]
    lines = [" ".join([str(at % 2), *(f"{key}:1.5" for key in row)]) for at, row in enumerate(rows)]
    return Lookalike(lines, [[("", key) for key in row] for row in rows])


def _libffm(draw: _Draw) -> Lookalike:
    rows = [[(field, draw.key(90)) for field in range(3)] for _ in range(_ROWS)]
    lines = [
        " ".join([str(at % 2), *(f"{field}:{key}:0.3651" for field, key in row)])
        for at, row in enumerate(rows)
    ]
    return Lookalike(lines, [[(f"field {field}", key) for field, key in row] for row in rows])


def _web_log(draw: _Draw) -> Lookalike:
    paths = [f"/images/{draw.key(90)}.png?a=1" for _ in range(_ROWS)]
    lines = [
        f'10.0.0.{at % 9} - - [17/May/2015:10:{at // 60:02d}:{at % 60:02d} +0000] "GET {path} HTTP/1.1" 200 '
        f'{at + 1} "-" "Mozilla/5.0 (X11; Linux)"'
        for at, path in enumerate(paths)
    ]
    return Lookalike(lines, [[("", path)] for path in paths])


def _edges(draw: _Draw) -> Lookalike:
    found = table("user and item", "\t", has_header=False)
    lines = ["# Directed graph", "# Nodes: 130 Edges: 120", "# user_id\titem_id", *found.lines]
    accesses = [[("user_id", user), ("item_id", item)] for (_, user), (_, item) in found.accesses]
    return Lookalike(lines, accesses)


def _arff(draw: _Draw) -> Lookalike:
    found = table("ratings", ",", has_header=False)
    names = ("user_id", "item_id", "rating", "timestamp")
    lines = [
        "@RELATION ratings",
        "",
        *(f"@ATTRIBUTE {name} NUMERIC" for name in names),
        "",
        "@DATA",
        *found.lines,
    ]
    accesses = [[("user_id", user), ("item_id", item)] for (_, user), (_, item) in found.accesses]
    return Lookalike(lines, accesses)


def _frame(draw: _Draw) -> Lookalike:
    found = table("user and item", ",", has_header=False)
    lines = [",0,1", *(f"{at},{line}" for at, line in enumerate(found.lines))]
    accesses = [[("2", user), ("3", item)] for (_, user), (_, item) in found.accesses]
    return Lookalike(lines, accesses)


def _cache_trace(draw: _Draw) -> Lookalike:
    keys = [f"k{draw.key(90):04x}" for _ in range(_ROWS)]
    ops = [draw.choice(["get", "get", "set"]) for _ in range(_ROWS)]
    lines = [
        f"{at // 40},{key},5,{len(key) * 9},{at % 7},{op},0"
        for at, (key, op) in enumerate(zip(keys, ops, strict=True))
    ]
    return Lookalike(lines, [[("", key)] for key in keys], pulls=[op == "get" for op in ops])


def _quoted(draw: _Draw) -> Lookalike:
    keys = [f'{draw.key(90)}; a ""b""' for _ in range(_ROWS)]
    lines = ['"User-ID";"ISBN";"Book-Rating"', *(f'"{at % 7}";"{key}";"0"' for at, key in enumerate(keys))]
    return Lookalike(lines, [[("User-ID", at % 7), ("ISBN", key)] for at, key in enumerate(keys)])


OTHERS: dict[str, Callable[[_Draw], Lookalike]] = {
    "a number a line": _column,
    "LIRS": _lirs,
    "a URL a line": _column_of_urls,
    "user and items": _lists,
    "baskets": _baskets,
    "kvcache": _operations,
    "cache trace": _cache_trace,
    "JSON lines": _json,
    "JSON lines of lists": _json_lists,
    "JSON array": _json_array,
    "JSON array of lists": _json_array_of_lists,
    "JSON array of keys": _json_array_of_keys,
    "libsvm": _libsvm,
    "libffm": _libffm,
    "web log": _web_log,
    "edges": _edges,
    "ARFF": _arff,
    "frame": _frame,
    "quoted": _quoted,
}


def other(kind: str, seed: int = 1) -> Lookalike:
    return OTHERS[kind](_Draw(seed))


def signatures(rows: Iterable[Iterable[tuple[str, object]]]) -> Counter[tuple[str, tuple[int, ...]]]:
    """Return how many keys of a table are accessed in the same rows, whatever numbers the keys have."""
    rows_of_key = defaultdict[tuple[str, object], list[int]](list)
    for number, row in enumerate(rows):
        for access in dict.fromkeys(row):
            rows_of_key[access].append(number)
    return Counter((table, tuple(numbers)) for (table, _), numbers in rows_of_key.items())


def rows_of(steps: Steps) -> Accesses:
    """Return the table and key of each access, for a log that was read with a mini-batch a row."""
    tables = steps.tables or ("",)
    rows: Accesses = []
    for begin, end in zip(steps.starts[:-1].tolist(), steps.starts[1:].tolist(), strict=True):
        indices = (steps.accesses[begin:end] & KEY).tolist()
        rows.append([(tables[steps.table_of[index]], int(steps.keys[index])) for index in indices])
    return rows


def pulls_of(steps: Steps) -> list[bool]:
    return [bool(access & PULL) for access in steps.accesses[steps.starts[:-1]].tolist()]
