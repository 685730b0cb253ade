"""`hotline.Worker`: what a training script calls. The words are PS-Lite's, the habits NumPy's."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from foundation.logs.parts import save_arrays
from foundation.protocol.codec import Caller
from hosts.sockets import open_udp
from hotline.kv.books import RunBooks
from hotline.kv.calls import Rows, check_finite, check_keys, check_out, check_values
from hotline.kv.connection import Connection, place_of
from hotline.kv.engine import LARGEST, Engine, Operation
from hotline.kv.errors import Closed, Gone, Misused, NotUp
from hotline.kv.fixed import from_fixed, to_fixed
from hotline.kv.loops import NOT_FINITE, warm
from hotline.kv.orders import Orders
from topologies.embedding_tables import DEFAULT_SCALE, Table, make_tables
from topologies.rendezvous import RANK_VARIABLE

log = logging.getLogger(__name__)

Floats = NDArray[np.float32]
Callback = Callable[[], object]


class Worker:
    """One of `size` workers of a job, with tables that all of them push to and pull from.

    `tables` has (rows, dim) of each by its name. Values are kept in units of 1 / `scale`, of all tables or by
    name. All workers declare the same. `connect` is the socket that `hotline up` has printed. A run sets both
    it and `rank` for the scripts that it starts.

    Calls return an operation's number at once, and are done in the order in which they were made. Keys are
    integers [n], each once, in any order; values are float32 [n, dim], or [n] where dim is 1. What is pushed
    is copied; what is pulled is in `out` when `wait` returns. Raises a `HotlineError` that says what to do.
    """

    def __init__(
        self,
        tables: Mapping[str, tuple[int, int]],
        scale: float | Mapping[str, float] = DEFAULT_SCALE,
        connect: str | os.PathLike[str] | None = None,
        rank: int | None = None,
    ) -> None:
        self.tables = make_tables(tables, scale)
        """What was declared, by name."""
        self.saturated = dict.fromkeys(self.tables, 0)
        """Table -> values pushed so far that were beyond int32, and became the largest that fit."""
        self._pushed: set[str] = set()
        self._engine: Engine | None = None
        self._orders: Orders | None = None
        self._is_closed = False
        wanted = _rank_of_run() if rank is None else rank
        warm()
        self._connection = Connection(place_of(connect), self._lose)
        try:
            terms = self._connection.ask("join", tables=self.tables.declared(), rank=wanted)
            self.rank: int = terms["rank"]
            """Number of this worker, 0..size-1."""
            self.size: int = terms["size"]
            """Workers of the job."""
            self.arm: str = terms["arm"]
            """The way in which the switch helps, as reports name it."""
            self.seed: int = terms["seed"]
            """The run's: the same for all workers and arms."""
            self._join(terms)
        except BaseException:
            self._connection.close()
            raise

    def _join(self, terms: Mapping[str, Any]) -> None:
        """Begin to do operations: in a run, with books of them, and when it says so."""
        books: list[RunBooks] = []

        def make_books(largest: int) -> RunBooks:
            books.append(RunBooks(terms, self.tables.size, largest, self._tell_steps))
            return books[0]

        is_run = terms["parts"] is not None
        self._engine = _engine(terms, self.tables.size, make_books if is_run else None)
        if is_run:
            self._orders = Orders(self._connection, self._engine, books[0])

    def _tell_steps(self, steps: int) -> None:
        self._connection.tell("steps", steps=steps)

    def init(self, values: Floats, table: str | None = None) -> bool:
        """Set a table, values [rows, dim]: the first worker that calls it sets it, and all see that.

        Returns, when the table is set, whether these values were taken. To be called before any push to it.
        """
        of = self.tables.named(table)
        given = check_values(values, of.rows, of)
        check_finite(given, of)
        if of.name in self._pushed:
            raise Misused(f"init of table {of.name}: it was pushed to, or set, before; push adds to it")
        self._pushed.add(of.name)
        if not self._connection.ask("init", table=of.name)["mine"]:
            return False
        for rows in _blocks(of):
            self._working.wait(self._begin(of, rows, given[rows.keys], is_training=False))
        self._connection.ask("set", table=of.name)
        return True

    def push(
        self, keys: Any, values: Floats, table: str | None = None, callback: Callback | None = None
    ) -> int:
        """Add values [n, dim] to rows [n] of a table; the operation's number."""
        of = self.tables.named(table)
        rows = check_keys(keys, of)
        return self._begin(of, rows, check_values(values, len(rows.keys), of), callback=callback)

    def pull(self, keys: Any, out: Floats, table: str | None = None, callback: Callback | None = None) -> int:
        """Fetch rows [n] of a table into `out` [n, dim]; the operation's number."""
        of = self.tables.named(table)
        rows = check_keys(keys, of)
        return self._begin(of, rows, None, check_out(out, len(rows.keys), of), callback)

    def push_pull(
        self, keys: Any, values: Floats, out: Floats, table: str | None = None,
        callback: Callback | None = None,
    ) -> int:  # fmt: skip
        """Push, and then pull the same rows; the operation's number."""
        of = self.tables.named(table)
        rows = check_keys(keys, of)
        pushed = check_values(values, len(rows.keys), of)
        return self._begin(of, rows, pushed, check_out(out, len(rows.keys), of), callback)

    def wait(self, ts: int) -> None:
        """Until an operation, and all before it, have ended: `out` is filled, its callback has run."""
        self._working.wait(ts)

    def barrier(self) -> None:
        """Wait until all `size` workers have called it, with all of this worker's operations done."""
        self._working.wait_for_all()
        self._connection.ask("barrier")

    def report(self, loss: float, **more: float) -> None:
        """Tell how training goes: numbers by name, which `hotline up` keeps in `reports.jsonl`."""
        values = {name: float(value) for name, value in {"loss": loss, **more}.items()}
        for name, value in values.items():
            if not isfinite(value):
                raise Misused(f"report({name}={value}): a finite number is right")
        self._check_open()
        self._connection.tell("report", **values)

    def read(self, table: str | None = None) -> Floats:
        """All rows of a table [rows, dim], as they are once this worker's operations are done."""
        of = self.tables.named(table)
        values = np.empty((of.rows, of.dim), np.float32)
        for rows in _blocks(of):
            out = values[rows.keys[0] : rows.keys[-1] + 1]
            self._working.wait(self._begin(of, rows, None, out, is_training=False))
        return values

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all tables [rows, dim] as an .npz archive, by their names."""
        save_arrays(Path(path), {name: self.read(name) for name in self.tables})

    def parameters(self, keys: Any, table: str | None = None) -> NDArray[np.uint64]:
        """What update logs and hot sets have as keys: a parameter for each value of rows [n], [n * dim]."""
        of = self.tables.named(table)
        return of.parameters(check_keys(keys, of).keys).astype(np.uint64)

    def close(self) -> None:
        """Wait until all is done and leave; what saturated is told. May be called again."""
        try:
            if self._engine is not None and not self._is_closed:
                self._engine.wait_for_all()
        finally:
            self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._leave(is_in_order=False)

    def _begin(
        self, of: Table, rows: Rows, values: Floats | None, out: Floats | None = None,
        callback: Callback | None = None, is_training: bool = True,
    ) -> int:  # fmt: skip
        engine = self._working
        deltas = None
        if values is not None:
            ordered = values if rows.order is None else values[rows.order]
            deltas, saturated = to_fixed(ordered, of.scale)
            if saturated == NOT_FINITE:
                check_finite(values, of)  # raises, and says where
        take = None if out is None else _taker(of, rows, out)
        number = engine.begin(Operation(of.parameters(rows.keys), deltas, take, callback, is_training))
        if values is not None:
            self.saturated[of.name] += saturated
            self._pushed.add(of.name)
        return number

    def _leave(self, is_in_order: bool = True) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._engine is not None:
            self._engine.close()
        last = {} if self._orders is None else self._orders.close()
        told = {name: number for name, number in self.saturated.items() if number}
        for name, number in told.items():
            most = 2**31 / self.tables[name].scale
            log.warning("table %s: %d pushed values were beyond ±%g, and became that", name, number, most)
        try:
            if is_in_order:
                self._connection.ask("leave", saturated=told, **last)
        except Gone:
            log.debug("nobody is left to be told")
        finally:
            self._connection.close()

    def _lose(self, gone: Gone) -> None:
        if self._engine is not None:
            self._engine.lose(gone)

    @property
    def _working(self) -> Engine:
        self._check_open()
        assert self._engine is not None
        return self._engine

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("this worker has been closed")


def _rank_of_run() -> int | None:
    """What a run has given to this process; None without one."""
    given = os.environ.get(RANK_VARIABLE)
    if given is None:
        return None
    if not given.isdecimal():
        raise Misused(f"{RANK_VARIABLE}={given}: a run sets it to a rank, 0 or more; else leave it unset")
    return int(given)


def _engine(
    terms: Mapping[str, Any], parameters: int, make_books: Callable[[int], RunBooks] | None
) -> Engine:
    """What speaks to the servers, as the rendezvous has told it."""
    host, port = terms["address"]
    try:
        sock = open_udp((host, port))
    except OSError as error:
        raise NotUp(
            f"worker {terms['rank']} cannot have UDP port {port} of {host} ({error.strerror}): "
            "end what has it, then start all workers again"
        ) from None
    try:
        caller = Caller(terms["job"], terms["rank"] + 1, terms["epoch"])
        peers = [(peer, number) for peer, number in terms["peers"]]
        return Engine(caller, terms["design"], parameters, terms["window"], peers, sock, make_books)
    except BaseException:
        sock.close()
        raise


def _taker(of: Table, rows: Rows, out: Floats) -> Callable[[NDArray[np.uint32]], None]:
    def take(units: NDArray[np.uint32]) -> None:
        ordered = out if rows.order is None else np.empty(out.shape, np.float32)
        from_fixed(units, of.scale, ordered)
        if ordered is not out:
            out[rows.order] = ordered

    return take


def _blocks(of: Table) -> list[Rows]:
    """All rows, as many at a time as an operation has room for."""
    step = max(1, LARGEST // of.dim)
    return [Rows(np.arange(at, min(at + step, of.rows)), None) for at in range(0, of.rows, step)]
