"""What a PS keeps on disk: a checkpoint and the notes since, in SQLite with its write-ahead log.

With it `kill -9` loses nothing that was acknowledged, whatever `fsync` is: what is written is the kernel's by
then. A machine that loses its power loses what the disk had not been told to keep: nothing with "always",
which syncs each commit; with "checkpoint" what came since the last checkpoint of SQLite's log; with "never"
what the kernel had not written by itself.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from hosts.config import Fsync
from hosts.errors import DurabilityError, DurabilityPaused

_SYNCHRONOUS: dict[Fsync, str] = {"always": "FULL", "checkpoint": "NORMAL", "never": "OFF"}
_SCHEMA = """
CREATE TABLE IF NOT EXISTS identity (what TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS checkpoint (name TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS journal (number INTEGER PRIMARY KEY, notes BLOB NOT NULL);
"""
_FULL = ("disk is full", "disk I/O error")


class Durable:
    """The file of one PS. `identity` is what must be the same for its content to be of use."""

    def __init__(
        self, file: Path, identity: Mapping[str, object], fsync: Fsync, largest_journal: int
    ) -> None:
        self.file = file
        self.journal_bytes = 0
        """Of the notes since the checkpoint."""
        self.commits = self.commit_ns = 0
        """Of notes, and how long all of them took."""
        self._largest_journal = largest_journal
        wanted = json.dumps(identity, sort_keys=True)
        with self._errors():
            self._open = sqlite3.connect(file, isolation_level=None)
            self._open.execute("PRAGMA journal_mode = WAL")
            self._open.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[fsync]}")
            self._open.executescript(_SCHEMA)
            row = self._open.execute("SELECT what FROM identity").fetchone()
            if row is None:
                self._open.execute("INSERT INTO identity VALUES (?)", (wanted,))
        if row is not None and row[0] != wanted:
            raise DurabilityError(f"{file}: is of the PS {row[0]}, this one is {wanted}")

    def close(self) -> None:
        """Close the file."""
        self._open.close()

    def parts(self) -> dict[str, bytes]:
        """The checkpoint (`hosts.hotset.ps.checkpoint`), or nothing."""
        with self._errors():
            return dict(self._open.execute("SELECT name, content FROM checkpoint"))

    def notes(self) -> Iterator[bytes]:
        """The notes since, in order (`hosts.ps.journal`)."""
        with self._errors():
            for (notes,) in self._open.execute("SELECT notes FROM journal ORDER BY number"):
                self.journal_bytes += len(notes)
                yield notes

    def append(self, notes: bytes) -> None:
        """Keep notes; `DurabilityPaused` where there is no room for them, and nothing has changed then."""
        begun = time.monotonic_ns()
        with self._errors():
            self._open.execute("INSERT INTO journal (notes) VALUES (?)", (notes,))
        self.journal_bytes += len(notes)
        self.commits += 1
        self.commit_ns += time.monotonic_ns() - begun

    @property
    def wants_checkpoint(self) -> bool:
        """The journal has become as long as it may."""
        return self.journal_bytes >= self._largest_journal

    def checkpoint(self, parts: Iterable[tuple[str, bytes]]) -> None:
        """Keep a checkpoint instead of all before, at once."""
        with self._errors():
            self._open.execute("BEGIN IMMEDIATE")
            try:
                self._open.execute("DELETE FROM checkpoint")
                self._open.executemany("INSERT INTO checkpoint VALUES (?, ?)", parts)
                self._open.execute("DELETE FROM journal")
                self._open.execute("COMMIT")
                # Gives the room of SQLite's own log back.
                self._open.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.Error:
                if self._open.in_transaction:
                    self._open.execute("ROLLBACK")
                raise
        self.journal_bytes = 0

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            kind = DurabilityPaused if any(text in str(error) for text in _FULL) else DurabilityError
            raise kind(f"{self.file}: {error}") from error
