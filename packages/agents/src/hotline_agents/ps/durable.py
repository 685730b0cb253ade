"""The persisted state of a PS: a checkpoint and the journal since, in SQLite with its write-ahead log.

`kill -9` loses no acknowledged update for any `fsync`: the kernel has the written data. A power failure loses
data that is not synced to disk: none with "always", which syncs each commit; with "checkpoint" the commits
since the last checkpoint of SQLite's log; with "never" the data that the kernel had not written back.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from foundation.errors import HotlineError
from hosts.agent_config import Fsync

_SYNCHRONOUS: dict[Fsync, str] = {"always": "FULL", "checkpoint": "NORMAL", "never": "OFF"}
_SCHEMA = """
CREATE TABLE IF NOT EXISTS identity (what TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS checkpoint (name TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS journal (number INTEGER PRIMARY KEY, notes BLOB NOT NULL);
"""
_FULL_DISK_MESSAGES = ("disk is full", "disk I/O error")  # of SQLite


class DurabilityError(HotlineError):
    """A server's file cannot be opened, read or written, or belongs to another server."""


class DurabilityPaused(DurabilityError):
    """The disk is full: the server acknowledges nothing until there is room."""


class DurableFile:
    """The file of one PS. `DurabilityError` is raised if the content has another `identity`."""

    def __init__(
        self, file: Path, identity: Mapping[str, object], fsync: Fsync, max_journal_bytes: int
    ) -> None:
        self.file = file
        self.journal_bytes = 0  # size of the journal since the checkpoint, in bytes
        self.commits = self.commit_ns = 0
        """Number of journal commits, and their total duration in ns."""
        self._max_journal_bytes = max_journal_bytes
        with self._translate_errors():
            self._connection = sqlite3.connect(file, isolation_level=None)  # autocommit
        try:
            self._prepare(json.dumps(identity, sort_keys=True), fsync)
        except BaseException:
            self.close()
            raise

    def _prepare(self, identity: str, fsync: Fsync) -> None:
        with self._translate_errors():
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[fsync]}")
            self._connection.executescript(_SCHEMA)
            row = self._connection.execute("SELECT what FROM identity").fetchone()
            if row is None:
                self._connection.execute("INSERT INTO identity VALUES (?)", (identity,))
        if row is not None and row[0] != identity:
            raise DurabilityError(f"{self.file}: expected the file of PS {identity}, got that of {row[0]}")

    def close(self) -> None:
        self._connection.close()

    def parts(self) -> dict[str, bytes]:
        with self._translate_errors():
            return dict(self._connection.execute("SELECT name, content FROM checkpoint"))

    def notes(self) -> Iterator[bytes]:
        with self._translate_errors():
            for (notes,) in self._connection.execute("SELECT notes FROM journal ORDER BY number"):
                self.journal_bytes += len(notes)  # complete when the iterator is exhausted
                yield notes

    def append(self, notes: bytes) -> None:
        """Commit notes to the journal; raise `DurabilityPaused`, and change nothing, if the disk is full."""
        start_ns = time.monotonic_ns()
        with self._translate_errors():
            self._connection.execute("INSERT INTO journal (notes) VALUES (?)", (notes,))
        self.journal_bytes += len(notes)
        self.commits += 1
        self.commit_ns += time.monotonic_ns() - start_ns

    @property
    def needs_checkpoint(self) -> bool:
        return self.journal_bytes >= self._max_journal_bytes

    def checkpoint(self, parts: Iterable[tuple[str, bytes]]) -> None:
        with self._translate_errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.execute("DELETE FROM checkpoint")
                self._connection.executemany("INSERT INTO checkpoint VALUES (?, ?)", parts)
                self._connection.execute("DELETE FROM journal")
                self._connection.execute("COMMIT")
                # Free the disk space of SQLite's own log.
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.Error:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        self.journal_bytes = 0

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            is_full = any(text in str(error) for text in _FULL_DISK_MESSAGES)
            error_class = DurabilityPaused if is_full else DurabilityError
            raise error_class(f"{self.file}: {error}") from error
