"""The persisted state of a PS: a checkpoint in SQLite, and the journal since in a file beside it.

`kill -9` loses no acknowledged update for any `fsync`: the kernel has the written data. A power failure loses
data that is not synced to disk: none with "always", which syncs each commit; with "checkpoint" the commits
since the last checkpoint; with "never" all data that the kernel had not written back.

A checkpoint is one transaction, which also counts the journal's generation up: so it ends the journal, and
neither is found without the other.
"""

from __future__ import annotations

import errno
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from foundation.errors import HotlineError, reason_of
from hosts.agent_config import Fsync
from hotline_agents.ps.journal_file import JournalFile

_SYNCHRONOUS: dict[Fsync, str] = {"always": "FULL", "checkpoint": "NORMAL", "never": "OFF"}
_SCHEMA = """
CREATE TABLE IF NOT EXISTS owner (identity TEXT NOT NULL, generation INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS checkpoint (name TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID;
"""
_FULL_DISK_MESSAGES = ("disk is full", "disk I/O error")  # of SQLite
_FULL_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


class DurabilityError(HotlineError):
    """A server's file cannot be opened, read or written, or belongs to another server."""


class DurabilityPaused(DurabilityError):
    """The disk is full: the server acknowledges nothing until there is room."""


class DurableFile:
    """The files of one PS: `file`, and its journal `file`.notes.

    `DurabilityError` is raised if they are those of another `identity`.
    """

    def __init__(
        self, file: Path, identity: Mapping[str, object], fsync: Fsync, max_journal_bytes: int
    ) -> None:
        self.file = file
        self.journal_bytes = 0  # size of the journal since the checkpoint, in bytes
        self.commits = self.commit_ns = 0
        """Number of journal commits, and their total duration in ns."""
        self._max_journal_bytes = max_journal_bytes
        self._is_uncertain = False
        """Whether a checkpoint has failed, of which the next process may find all or nothing."""
        with self._translate_errors():
            self._connection = sqlite3.connect(file, isolation_level=None)  # autocommit
        try:
            self._journal = self._prepare(json.dumps(identity, sort_keys=True), fsync)
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self, identity: str, fsync: Fsync) -> JournalFile:
        notes_file = self.file.with_name(f"{self.file.name}.notes")
        with self._translate_errors():
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[fsync]}")
            self._connection.executescript(_SCHEMA)
            row = self._connection.execute("SELECT identity, generation FROM owner").fetchone()
            if row is not None and row[0] != identity:
                raise DurabilityError(
                    f"{self.file}: expected the file of PS {identity}, got that of {row[0]}"
                )
            if row is not None and not notes_file.exists():
                raise DurabilityError(
                    f"{self.file}: expected its journal {notes_file.name} beside it, found none"
                )
            self._generation = 0 if row is None else row[1]
            journal = JournalFile(notes_file, self._generation, is_synced=fsync == "always")
            if row is None:  # last, so that whoever finds an owner finds a journal
                self._connection.execute("INSERT INTO owner VALUES (?, 0)", (identity,))
        return journal

    def close(self) -> None:
        self._connection.close()
        self._journal.close()

    def parts(self) -> dict[str, bytes]:
        with self._translate_errors():
            return dict(self._connection.execute("SELECT name, content FROM checkpoint"))

    def notes(self) -> Iterator[bytes]:
        with self._translate_errors():
            for notes in self._journal.read():
                self.journal_bytes += len(notes)  # complete when the iterator is exhausted
                yield notes

    def append(self, notes: bytes) -> None:
        """Commit notes to the journal; raise `DurabilityPaused`, and change nothing, if the disk is full."""
        start_ns = time.monotonic_ns()
        if self._is_uncertain:
            self._settle()
        with self._translate_errors():
            self._journal.append(notes)
        self.journal_bytes += len(notes)
        self.commits += 1
        self.commit_ns += time.monotonic_ns() - start_ns

    @property
    def needs_checkpoint(self) -> bool:
        return self.journal_bytes >= self._max_journal_bytes

    def checkpoint(self, parts: Iterable[tuple[str, bytes]]) -> None:
        """Replace the checkpoint, and empty the journal; raise `DurabilityPaused` if the disk is full."""
        self._write_generation(self._generation + 1, parts)
        with self._translate_errors():
            # Free the disk space of SQLite's own log.
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _write_generation(self, generation: int, parts: Iterable[tuple[str, bytes]] | None = None) -> None:
        """Set the journal's generation and, in the same transaction, the parts of the checkpoint."""
        self._is_uncertain = True
        with self._translate_errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                if parts is not None:
                    self._connection.execute("DELETE FROM checkpoint")
                    self._connection.executemany("INSERT INTO checkpoint VALUES (?, ?)", parts)
                self._connection.execute("UPDATE owner SET generation = ?", (generation,))
                self._connection.execute("COMMIT")
            except sqlite3.Error:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        self._begin_generation(generation)

    def _begin_generation(self, generation: int) -> None:
        self._is_uncertain = False
        if generation != self._generation:
            self._generation, self.journal_bytes = generation, 0
            self._journal.begin(generation)

    def _settle(self) -> None:
        """Find out whether a checkpoint that has failed is there, and see to it that it is not found later.

        What SQLite has written of it before the failure is written over by another transaction.
        """
        with self._translate_errors():
            [generation] = self._connection.execute("SELECT generation FROM owner").fetchone()
        if generation == self._generation:
            self._write_generation(generation)
        else:
            self._begin_generation(generation)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            is_full = any(text in str(error) for text in _FULL_DISK_MESSAGES)
            raise self._error(str(error), is_full) from error
        except OSError as error:
            raise self._error(reason_of(error), error.errno in _FULL_DISK_ERRORS) from error

    def _error(self, reason: str, is_full: bool = False) -> DurabilityError:
        return (DurabilityPaused if is_full else DurabilityError)(f"{self.file}: {reason}")
