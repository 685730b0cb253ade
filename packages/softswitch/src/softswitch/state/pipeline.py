"""All of `Pipeline` (`softswitch.pipeline`) except packet processing, on state in a `Memory`."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager

from nativekit.records import Records
from softswitch import ir
from softswitch.memory.layout import Layout
from softswitch.memory.output import DIGEST, HEAD_BYTES, LOG, read_head, read_values, record_head
from softswitch.memory.rows import Row
from softswitch.messages import format_message
from softswitch.pipeline import DigestMessage, LogRecord, Notice, Output
from softswitch.state.cells import Cells
from softswitch.state.entries import Entries
from softswitch.state.memory import Memory
from softswitch.state.profiles import Profiles
from softswitch.state.replication import Replication


class StatePipeline:
    """All of `Pipeline` except packet processing; methods without docstrings are documented there."""

    def __init__(
        self, program: ir.Program, layout: Layout, memory: Memory, table_rows: Records[Row] | None = None
    ) -> None:
        self.program = program
        self._layout = layout
        self._memory = memory
        self.profiles = Profiles(program, layout, memory)
        self.tables = Entries(program, layout, memory, self.profiles.by_position, table_rows)
        self.replication = Replication(layout.replication, memory)
        self.cells = Cells(program, layout, memory)
        self._notices: list[bytes] = []  # records without padding

    # -- output records

    def _outputs(self, records: Iterable[tuple[int, bytes]]) -> list[Output]:
        """Return the frames among the records (kind, data); collect the notices for `take_notices`."""
        outputs: list[Output] = []
        for kind, data in records:
            if is_notice(kind):
                self._notices.append(record_head(kind, len(data)) + data)
            else:
                outputs.append(Output(kind, data))
        return outputs

    def take_notices(self) -> list[Notice]:
        return [self.decode_notice(record) for record in self.take_notice_records()]

    def take_notice_records(self) -> list[bytes]:
        """Return the notices since the last call as records, which `decode_notice` decodes."""
        records, self._notices = self._notices, []
        return records

    def decode_notice(self, record: bytes) -> Notice:
        """Decode a record without padding."""
        kind, _ = read_head(record)
        return decode_notice(self.program, kind, record[HEAD_BYTES:])

    # -- transactions

    def transaction(self, is_atomic: bool = False) -> AbstractContextManager[None]:
        return self._memory.transaction(is_atomic)

    # -- closing

    def close(self) -> None:
        self._memory.close()

    # -- random numbers

    def seed_random(self, seed: int) -> None:
        with self._memory.locked():
            self._memory.store(self._layout.random, [seed])


def is_notice(kind: int) -> bool:
    # The kind of a notice is LOG or DIGEST, the higher bit, plus a number (`memory.output`).
    return kind >= LOG


def decode_notice(program: ir.Program, kind: int, data: bytes) -> Notice:
    values = read_values(data)
    if kind & DIGEST:
        return DigestMessage(kind ^ DIGEST, tuple(values))
    message = kind ^ LOG
    text = format_message(program.messages[message], values)
    return LogRecord(text, failed=message in program.assertions)
