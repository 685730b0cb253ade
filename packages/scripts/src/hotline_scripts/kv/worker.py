"""`hotline.Worker`, with PS-Lite's operations and NumPy's conventions."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import Self

from foundation.designs.registry import design
from foundation.errors import HotlineError
from foundation.logs.parts import save_arrays
from foundation.text import pluralize
from hotline_scripts.embedding_tables import DEFAULT_SCALE, EmbeddingTable, make_tables
from hotline_scripts.kv import process_exit
from hotline_scripts.kv.archive import SavedTable, load_archive, table_arrays
from hotline_scripts.kv.calls import (
    Operation,
    Rows,
    check_callback,
    check_finite,
    check_integer,
    check_keys,
    check_number,
    check_out,
    check_path,
    check_values,
    make_pull_handler,
)
from hotline_scripts.kv.connection import ClusterLost, Connection
from hotline_scripts.kv.conversion import NOT_FINITE, compile_all, to_fixed
from hotline_scripts.kv.engine import Engine, InvalidCall, WorkerClosed
from hotline_scripts.kv.failures import NotDelivered, combine, describe
from hotline_scripts.kv.init_call import InitCall
from hotline_scripts.kv.joining import make_engine, rank_of_run
from hotline_scripts.kv.whole_tables import read_states, read_values, set_table
from hotline_scripts.lines import socket_path

if TYPE_CHECKING:
    from hotline_scripts.kv.block_commands import BlockCommandListener

log = logging.getLogger(__name__)

Floats = NDArray[np.float32]
Callback = Callable[[], object]


EXIT_TIMEOUT_S = 10.0
"""Time in s without an answer after which a script that ends without closing its worker drops operations."""
_LEAVE_TIMEOUT_S = 5.0
"""Timeout of each further step of leaving at the end of a script, in s."""
_PUSHES_PER_NOTICE = 64
_ADVICE = "call kv.close() at the end of the script, or use `with hotline.Worker(...) as kv:`"


class Worker:
    """One of `size` workers of a job, with tables that all of them push to and pull from.

    `tables` is name -> (rows, dim). Values are fixed point in units of 1 / `scale`, which is a number, or
    a dict with a number for each table. With an `optimiser`, a text such as "adagrad(lr=0.1)" or a dict with
    a text for each table, servers apply it: values are float32, and pushes are gradients in units of
    1 / `scale` (packages/optimisers/README.md). All workers declare the same tables. `connect` is the
    socket that `hotline up` has printed. A run sets both `connect` and `rank` for the scripts that it starts.

    Calls return the number of an operation at once, and operations are executed in their order. Keys are
    integers [n], each once, in any order; values are float32 [n, dim], or [n] if dim is 1. Pushed arrays are
    copied; a pulled array is complete when `wait` returns. Errors are `HotlineError`s that say what to do.
    """

    def __init__(
        self,
        tables: Mapping[str, tuple[int, int]],
        scale: float | Mapping[str, float] = DEFAULT_SCALE,
        connect: str | os.PathLike[str] | None = None,
        rank: int | None = None,
        optimiser: str | Mapping[str, str | None] | None = None,
    ) -> None:
        self.tables = make_tables(tables, scale, optimiser)
        self.saturated = dict.fromkeys(self.tables, 0)
        """Table -> number of pushed values beyond int32, which were clipped to its limits."""
        self._written_tables: set[str] = set()
        self._init_calls: dict[str, InitCall] = {}
        """Calls of `init` and `load` that have not returned, by table."""
        self._steps = dict.fromkeys(self.tables, 0)
        self._engine: Engine | None = None
        self._block_commands: BlockCommandListener | None = None
        self._is_closed, self._closed_message = False, "this worker has been closed"
        requested_rank = rank_of_run() if rank is None else check_integer(rank, "rank")
        path = socket_path(None if connect is None else check_path(connect, "path connect"))
        compile_all()
        self._connection = Connection(path, self._handle_lost_cluster)
        try:
            terms = self._connection.ask("join", tables=self.tables.to_declaration(), rank=requested_rank)
            self.rank: int = terms["rank"]
            """Number of this worker, 0..size-1."""
            self.life: int = terms["life"]
            """Number of workers that have had this rank before; 0 unless it takes a dead worker's place."""
            self.size: int = terms["size"]
            self.arm: str = terms["arm"]
            """Name of the arm, as in reports."""
            self.seed: int = terms["seed"]
            """Seed of the run, the same for all workers and arms."""
            self._join(terms)
        except BaseException:
            self._connection.close()
            raise
        process_exit.add(self, handles_sigterm=not self._is_run)

    def _join(self, terms: Mapping[str, Any]) -> None:
        self._is_run = terms["parts"] is not None  # the folder of a run's logs
        self.tables = self.tables.in_design(design(terms["design"]).has_rows)
        self._engine = make_engine(
            terms,
            self.tables.space,
            on_steps=lambda steps: self._connection.send("steps", steps=steps),
            on_silence=lambda servers: self._connection.send("silence", servers=servers),
        )
        if self._engine.recorder is not None:
            # Imported late, as only runs need it: it takes a third of the time in which a worker joins.
            from hotline_scripts.kv.block_commands import BlockCommandListener

            self._block_commands = BlockCommandListener(self._connection, self._engine, self._engine.recorder)

    def init(self, values: Floats, table: str | None = None) -> bool:
        """Set a table to values [rows, dim], unless another worker has; return whether this worker set it.

        Returns when the table is set. Call `init` before any push to the table. Ctrl-C ends only the
        wait: the table is set in the background, and a repeated call with the same values waits again.
        """
        target = self.tables.find_table(table)
        array = check_values(values, target.rows, target)
        check_finite(array, target)
        has_set = self._init_table(target, SavedTable(array, states={}, steps=0), call="init")
        self._init_calls.pop(target.name, None)
        return has_set

    def load(self, path: str | os.PathLike[str]) -> bool:
        """Set all tables, and the states of their optimisers, to those of an archive that `save` wrote.

        All workers call `load` instead of `init`; it returns whether this worker has set a table.
        """
        archive = load_archive(check_path(path), self.tables)
        for name in archive:
            self._check_not_written(self.tables[name], "load")
        has_set = [self._init_table(self.tables[name], saved, call="load") for name, saved in archive.items()]
        for name in archive:
            self._init_calls.pop(name, None)
        return any(has_set)

    def _init_table(self, target: EmbeddingTable, saved: SavedTable, call: str) -> bool:
        self._open_engine.check_not_in_callback(call)
        init_call = self._init_calls.get(target.name)
        if init_call is None:
            self._check_not_written(target, call)
            init_call = InitCall(saved.values, lambda: self._set_table(target, saved))
            self._init_calls[target.name] = init_call
        elif not init_call.is_of(saved.values):
            raise InvalidCall(
                f"{call} of table {target.name}: an interrupted call sets it to other values; "
                "repeat that call with the same values"
            )
        return init_call.wait()

    def _set_table(self, target: EmbeddingTable, saved: SavedTable) -> bool:
        self._written_tables.add(target.name)
        answer = self._connection.ask("init", table=target.name)
        is_first: bool = answer["is_first"]
        if is_first:
            self.saturated[target.name] += set_table(self._open_engine, target, saved.values, saved.states)
            self._connection.ask("set", table=target.name, steps=saved.steps)
        self._steps[target.name] = saved.steps if is_first else answer["steps"]
        return is_first

    def _check_not_written(self, target: EmbeddingTable, call: str) -> None:
        if target.name in self._written_tables and target.name not in self._init_calls:
            raise InvalidCall(
                f"{call} of table {target.name}: it was set or pushed to before; use push to add to it"
            )

    def push(
        self, keys: ArrayLike, values: Floats, table: str | None = None, callback: Callback | None = None
    ) -> int:
        """Add values [n, dim] to rows [n] of a table; return the operation's number.

        If the table has an optimiser, the values are gradients.
        """
        target = self.tables.find_table(table)
        rows = check_keys(keys, target)
        return self._submit(target, rows, check_values(values, len(rows.keys), target), callback=callback)

    def pull(
        self, keys: ArrayLike, out: Floats, table: str | None = None, callback: Callback | None = None
    ) -> int:
        """Fetch rows [n] of a table into `out` [n, dim]; return the operation's number."""
        target = self.tables.find_table(table)
        rows = check_keys(keys, target)
        checked_out = check_out(out, len(rows.keys), target)
        return self._submit(target, rows, values=None, out=checked_out, callback=callback)

    def push_pull(
        self, keys: ArrayLike, values: Floats, out: Floats, table: str | None = None,
        callback: Callback | None = None,
    ) -> int:  # fmt: skip
        """Push to rows, and then pull them; return the operation's number."""
        target = self.tables.find_table(table)
        rows = check_keys(keys, target)
        checked_values = check_values(values, len(rows.keys), target)
        return self._submit(target, rows, checked_values, check_out(out, len(rows.keys), target), callback)

    def wait(self, ts: int) -> None:
        """Wait until an operation and all before it have ended, `out` is filled and callbacks have run.

        Raises what callbacks of these operations have raised, if no call has raised it before; several errors
        are raised as one `OperationErrors`.
        """
        self._open_engine.wait(check_integer(ts, "ts"))

    def barrier(self) -> None:
        """Wait until this worker's operations are done, and all `size` workers have called `barrier`."""
        self._open_engine.wait_for_all()
        self._connection.ask("barrier", pushes=self._pushes_to_optimisers())

    def report(self, /, loss: float, **other_metrics: float) -> None:
        """Report training metrics by name; `hotline up` appends them to `reports.jsonl`."""
        metrics = {"loss": loss, **other_metrics}
        values = {name: check_number(value, name) for name, value in metrics.items()}
        self._check_open()
        self._connection.send("report", metrics=values)

    def read(self, table: str | None = None) -> Floats:
        """Return all rows of a table [rows, dim], after all of this worker's operations."""
        return read_values(self._open_engine, self.tables.find_table(table))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all tables [rows, dim] by name, and the states of optimisers, to an .npz archive."""
        checked_path = Path(check_path(path))
        arrays: dict[str, Any] = {}
        for name, table in self.tables.items():
            states = read_states(self._open_engine, table)
            arrays |= table_arrays(table, SavedTable(self.read(name), states, self._steps[name]))
        save_arrays(checked_path, arrays)

    def parameters(self, keys: ArrayLike, table: str | None = None) -> NDArray[np.uint64]:
        """Return the keys of rows [n] in update logs and hot sets.

        A row has one key, and if it has more than 128 values the fewest that have at most 128 each.
        """
        target = self.tables.find_table(table)
        return target.positions(check_keys(keys, target).keys).astype(np.uint64)

    def close(self) -> None:
        """Wait until all operations are done, and leave; warn of saturated values. May be called again.

        Raises the errors of operations that no call has raised, and `NotDelivered` unless servers have
        acknowledged all pushes.
        """
        if self._is_closed or self._engine is None:
            return
        self._engine.check_not_in_callback("close")
        try:
            self._engine.wait_for_all()
        except BaseException as error:
            self._leave(is_orderly=not self._engine.has_failed, reason=describe(error))
            raise
        if (loss := self._leave()) is not None:
            raise loss

    def __reduce__(self) -> NoReturn:
        raise InvalidCall(
            "a hotline.Worker cannot be copied or pickled, nor a whole model that has one: kv.save keeps the "
            "rows, and PyTorch's file of model.state_dict() the other layers"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        errors = self.end(error)
        raised = errors[0] if errors and isinstance(error, SystemExit | GeneratorExit) else None
        for each in errors:
            if each is not raised:
                log.error("%s", describe(each))
        if raised is not None:
            raise raised from raised.__cause__  # rather than end with status 0

    def end(self, error: BaseException | None) -> list[BaseException]:
        """Leave at the end of a script that does not call `close`, after `error` if that is not None.

        Operations under way are executed while servers answer, each within `EXIT_TIMEOUT_S`. They are dropped
        after Ctrl-C, and after an error in a run, which fails the run. Return `NotDelivered` if values are
        lost, and errors of operations that no call has raised.
        """
        if self._is_closed:
            return []
        engine, reason = self._open_engine, "the script was interrupted"
        engine.check_not_in_callback("the end of a script")
        has_failed = error is not None and not isinstance(error, SystemExit | GeneratorExit)
        failure: HotlineError | None = None
        if has_failed and self._is_run:
            reason = "the script has failed"
        elif not isinstance(error, KeyboardInterrupt):
            try:
                engine.flush(EXIT_TIMEOUT_S)
                reason = f"no server answered for {EXIT_TIMEOUT_S:g} s; {_ADVICE}"
            except HotlineError as raised:
                failure, reason = raised, str(raised)
            except (KeyboardInterrupt, SystemExit):  # Ctrl-C or SIGTERM during the wait
                pass
        loss = self._leave(not has_failed and failure is None, reason, _LEAVE_TIMEOUT_S)
        errors = engine.take_operation_errors()
        return [
            *([] if loss is None else [loss]),
            *([] if failure is None or loss is not None else [failure]),
            *([] if not errors else [combine(errors)]),
        ]

    def abandon(self) -> None:
        """Give up the worker in a forked process: its threads and its rank belong to the parent."""
        self._is_closed = True
        self._closed_message = (
            f"this worker belongs to process {os.getppid()}, which has forked this one: "
            "make a hotline.Worker in this process, or train in the parent"
        )
        self._connection.abandon()
        if self._engine is not None:
            self._engine.abandon()

    def _submit(
        self, target: EmbeddingTable, rows: Rows, values: Floats | None, out: Floats | None = None,
        callback: Callback | None = None, is_training: bool = True, word_flags: int = 0,
    ) -> int:  # fmt: skip
        engine = self._open_engine
        deltas = None
        if values is not None:
            sorted_values = values if rows.order is None else values[rows.order]
            deltas, clipped_count = to_fixed(sorted_values, target.scale)
            if clipped_count == NOT_FINITE:
                check_finite(values, target)  # raises, with the position
            deltas = target.pad(deltas)
        on_values = None if out is None else make_pull_handler(target, rows, out)
        operation_number = engine.submit(
            Operation(
                target.positions(rows.keys), target, deltas, on_values, check_callback(callback),
                is_training, step=self._steps[target.name], word_flags=word_flags,
            )
        )  # fmt: skip
        if values is not None:
            self._count_push(target)
            self.saturated[target.name] += clipped_count
            self._written_tables.add(target.name)
        return operation_number

    def _count_push(self, target: EmbeddingTable) -> None:
        """Count a push; tell the rendezvous now and then, since checkpoints have the count of optimisers."""
        self._steps[target.name] = steps = self._steps[target.name] + 1
        if target.optimiser is not None and steps % _PUSHES_PER_NOTICE == 0:
            self._connection.send("pushed", pushes={target.name: steps})

    def _pushes_to_optimisers(self) -> dict[str, int]:
        return {name: self._steps[name] for name, table in self.tables.items() if table.optimiser is not None}

    def _leave(
        self, is_orderly: bool = True, reason: str = "the worker was closed", timeout_s: float | None = None
    ) -> NotDelivered | None:
        """Leave, and return an error if pushed values are lost, with the `reason`.

        Without `is_orderly`, or if values are lost, the rendezvous finds that the worker has vanished. It is
        told of a worker that SIGTERM ends, however the script closes it: such a worker may have a successor.
        """
        if self._is_closed:
            return None
        self._is_closed = True
        loss = None
        try:
            if self._engine is not None:
                self._engine.close(timeout_s)
            loss = self._find_loss(reason)
            block_fields = {} if self._block_commands is None else self._block_commands.close()
            self._warn_of_saturation()
            if is_orderly and loss is None:
                saturated = {name: count for name, count in self.saturated.items() if count}
                self._connection.ask(
                    "leave", timeout_s, saturated=saturated, pushes=self._pushes_to_optimisers(),
                    terminated=process_exit.is_terminated(), **block_fields,
                )  # fmt: skip
        except ClusterLost:
            log.debug("the rendezvous has ended, so leaving is not announced")
        finally:
            # Also after Ctrl-C above, when the engine may still be at work.
            loss = self._find_loss(reason)
            process_exit.remove(self, loss)
            self._connection.close()
        return loss

    def _find_loss(self, reason: str) -> NotDelivered | None:
        if self._engine is None or not self._engine.unanswered_values:
            return None
        values = pluralize(self._engine.unanswered_values, "pushed value")
        return NotDelivered(f"worker {self.rank} ended with {values} not delivered: {reason}")

    def _warn_of_saturation(self) -> None:
        for name, count in self.saturated.items():
            if count:
                log.warning(
                    "table %s: %d pushed values were beyond ±%g, and were clipped to this limit",
                    name,
                    count,
                    2**31 / self.tables[name].scale,
                )

    def _handle_lost_cluster(self, error: ClusterLost) -> None:
        if self._engine is not None:
            self._engine.fail(error)

    @property
    def _open_engine(self) -> Engine:
        self._check_open()
        assert self._engine is not None
        return self._engine

    def _check_open(self) -> None:
        if self._is_closed:
            raise WorkerClosed(self._closed_message)
