"""Control-plane reads and writes, which a small BPF program executes under the lock of packet processing.

This process must never hold that lock, since a packet on its CPU would wait for it forever. So changes go
into a list in the mailbox, consistent reads are copied to the mailbox, and BPF_PROG_TEST_RUN runs the
program. Its type is `XDP`, so that the kernel runs it with softirqs disabled, and no packet interrupts it.

    header                      number of changes; first word and number of words of the state to copy
    changes                     (word of the state, mask, value) each, `MAX_CHANGES` at most
    copy                        `COPY_WORDS` at most

The program also counts the changes that it has applied. So a control plane that is rebuilt by replaying its
requests (`pins`) knows how many changes were applied, even if the previous process was killed in a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial

import numpy as np
import numpy.typing as npt
from llvmlite import ir as llvm

from softswitch.codegen.loops import Variable, repeat_while
from softswitch.errors import BatchTooLarge, KernelError
from softswitch.kernel import bpf
from softswitch.kernel.arena import APPLIED, MAILBOX, STATE, Arena
from softswitch.kernel.assembler import insert_map_descriptors
from softswitch.kernel.program import Builder
from softswitch.kernel.target import ARENA_MAP
from softswitch.llvmir import I64, byte_offset, integer, word
from softswitch.memory.rows import Words
from softswitch.memory.words import WORD_BYTES, WORD_MASK
from softswitch.messages import pluralize
from softswitch.state.memory import Memory, strided_cells

_CHANGE_COUNT, _COPY_START, _COPY_COUNT = range(3)  # words of the mailbox's header
_CHANGES = 8  # words from the mailbox's beginning
_CHANGE_WORDS = 3
MAX_CHANGES = 1 << 17
_COPY = _CHANGES + _CHANGE_WORDS * MAX_CHANGES
COPY_WORDS = 1 << 15
MAILBOX_BYTES = (_COPY + COPY_WORDS) * WORD_BYTES
_XDP_DROP = 1
_FRAME = bytes(64)  # a test run needs a frame
_NO_CHANGES = np.empty((0, _CHANGE_WORDS), dtype=np.uint64)


@cache
def build_control_code() -> bytes:
    builder = Builder("control", _XDP_DROP, reads_clock=False)
    b = builder.b
    execute = _execute_function(builder)
    mailbox = byte_offset(b, builder.base, builder.word(MAILBOX))
    with builder.locked():
        applied = b.call(execute, [builder.address_at(STATE), mailbox])
        b.store(b.add(builder.word(APPLIED), applied), builder.address_at(APPLIED))
    b.ret(builder.drop_code)
    return builder.finish().instructions


def _execute_function(builder: Builder) -> llvm.Function:
    """Return `execute(state, mailbox)`, which executes requests and returns the number of changes."""
    # If a loop exceeds the kernel's limit of iterations, the function around it returns. So the loops have a
    # function of their own, whose caller still releases the lock.
    pointer = builder.target.pointer
    function = llvm.Function(builder.module, llvm.FunctionType(I64, [pointer, pointer]), "execute")
    function.linkage = "internal"
    function.attributes.add("noinline")
    b = llvm.IRBuilder(function.append_basic_block("entry"))
    state, mailbox = function.args
    one = integer(64, 1)
    change_count, copy_start, copy_count = (
        b.load(word(b, mailbox, n), typ=I64) for n in (_CHANGE_COUNT, _COPY_START, _COPY_COUNT)
    )
    position = Variable(b, I64)
    with repeat_while(b, lambda: b.icmp_unsigned("<", position.get(), change_count)):
        change_offset = b.add(b.mul(position.get(), integer(64, _CHANGE_WORDS)), integer(64, _CHANGES))
        change = word(b, mailbox, change_offset)
        offset, mask, value = (b.load(word(b, change, n), typ=I64) for n in range(_CHANGE_WORDS))
        target = word(b, state, offset)
        unchanged_bits = b.and_(b.load(target, typ=I64), b.not_(mask))
        b.store(b.or_(unchanged_bits, b.and_(value, mask)), target)
        position.set(b.add(position.get(), one))
    position.set(integer(64, 0))
    with repeat_while(b, lambda: b.icmp_unsigned("<", position.get(), copy_count)):
        value = b.load(word(b, state, b.add(copy_start, position.get())), typ=I64)
        b.store(value, word(b, mailbox, b.add(position.get(), integer(64, _COPY))))
        position.set(b.add(position.get(), one))
    b.ret(change_count)
    return function


class ArenaMemory(Memory):
    """The state in an arena. Packets see the changes of a `locked` block or a transaction at its end.

    More than `MAX_CHANGES` words are applied in several steps, each atomic; an atomic transaction of more is
    refused. Changes that cannot be applied are undone.
    """

    log_always = True

    def __init__(self, arena: Arena, size_bytes: int) -> None:
        super().__init__(size_bytes=0)
        self.attach(arena.view(STATE, size_bytes))
        self._mailbox = arena.view(arena.mailbox, MAILBOX_BYTES)
        self._written_state = np.zeros(len(self.words), dtype=np.uint64)
        """State as written by the control plane; words that packets write (such as counters) are stale."""
        self._last_positions = np.empty(len(self.words), dtype=np.int32)  # in the log, by word
        self._pending_changes: list[npt.NDArray[np.uint64]] = []
        self._program = bpf.load(
            bpf.XDP, insert_map_descriptors(build_control_code(), {ARENA_MAP: arena.descriptor}), "control"
        )
        self._run = bpf.TestRun(self._program, bpf.XDP)
        self._unreplayed_changes = int(arena.words[APPLIED // WORD_BYTES])
        """Number of changes that the previous control plane applied and this one has not replayed yet."""
        self._arena_words = self.words
        # Until `finish_replay`, the control plane reads what it has replayed, not the arena, which is ahead.
        if arena.is_restored:
            self.words = self._written_state

    def finish_replay(self) -> None:
        """Read the arena from now on; raise KernelError if fewer changes were replayed than were applied."""
        if self._unreplayed_changes:
            raise KernelError(
                f"{pluralize(self._unreplayed_changes, 'change')} of the tables are missing in the journal"
            )
        self.words = self._arena_words

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Exclude other control-plane threads; packets continue, and see the changes at the end."""
        with self.control_lock:
            if self._undo_steps is not None:  # within a transaction or another `locked` block
                yield
                return
            with self._undoing():
                yield
                self._apply_pending_changes()

    @contextmanager
    def transaction(self, is_atomic: bool) -> Iterator[None]:
        with self.control_lock, self._undoing():
            words = self.words
            self.words = self._written_state  # with the changes that are not applied yet
            try:
                yield
                self._apply_pending_changes(is_atomic)
            finally:
                self.words = words

    @contextmanager
    def _undoing(self) -> Iterator[None]:
        """Undo all changes of the block if it raises; none of them must have been applied."""
        self._begin()
        try:
            yield
        except BaseException:
            self._undo()
            self._pending_changes = []
            raise
        finally:
            self._undo_steps = None

    def read(self, first: int, stop: int, unit: int = 1) -> Words:
        """Return a copy of words; each group of `unit` words is consistent."""
        if stop - first <= 1 or self.words is self._written_state:
            return self.words[first:stop].copy()
        chunk = COPY_WORDS // unit * unit
        parts = [
            self._read_words(chunk_start, min(chunk, stop - chunk_start))
            for chunk_start in range(first, stop, chunk)
        ]
        return np.concatenate(parts)

    def read_cells(self, first_byte: int, step: int, count: int, size: int) -> npt.NDArray[np.uint8]:
        first_word, lead_bytes = divmod(first_byte, WORD_BYTES)
        end = first_byte + step * (count - 1) + size
        words = self.read(first_word, -(-end // WORD_BYTES), max(1, step // WORD_BYTES))
        return strided_cells(words.view(np.uint8), lead_bytes, step, count, size)

    def _read_words(self, first: int, count: int) -> Words:
        self._mailbox[_CHANGE_COUNT : _COPY_COUNT + 1] = 0, first, count
        self._run(_FRAME)
        self._mailbox[_COPY_COUNT] = 0
        return self._mailbox[_COPY : _COPY + count].copy()

    def store(self, first_word: int, values: Sequence[int] | Words) -> None:
        offsets = np.arange(first_word, first_word + len(values), dtype=np.uint64)
        self._add_changes(offsets, WORD_MASK, np.array(values, dtype=np.uint64))

    def store_cells(self, first_byte: int, step: int, count: int, data: bytes) -> None:
        if not count:
            return
        first_word, lead_bytes = divmod(first_byte, WORD_BYTES)
        end = lead_bytes + step * (count - 1) + len(data)
        values, masks = np.zeros((2, -(-end // WORD_BYTES) * WORD_BYTES), dtype=np.uint8)
        strided_cells(values, lead_bytes, step, count, len(data))[:] = np.frombuffer(data, dtype=np.uint8)
        strided_cells(masks, lead_bytes, step, count, len(data))[:] = 0xFF
        value_words, mask_words = values.view(np.uint64), masks.view(np.uint64)
        changed = np.flatnonzero(mask_words)
        self._add_changes(
            changed.astype(np.uint64) + np.uint64(first_word), mask_words[changed], value_words[changed]
        )

    @contextmanager
    def changing(self) -> Iterator[Words]:
        """Yield a copy for compiled code to change; packets see the changes at the end."""
        with self.locked():
            self.log[0] = 0
            yield self._written_state
            changed_words, old_values = self._logged_changes()
            self.on_undo(partial(self._restore_written, changed_words, old_values))
            unique_words = self._without_duplicates(changed_words[::-1])
            self._pending_changes.append(
                _make_changes(unique_words.view(np.uint64), WORD_MASK, self._written_state[unique_words])
            )

    def _without_duplicates(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return words without duplicates: each at its last position, which avoids sorting."""
        positions = np.arange(len(offsets), dtype=np.int32)
        self._last_positions[offsets] = positions
        unique_offsets: npt.NDArray[np.int64] = offsets[self._last_positions[offsets] == positions]
        return unique_offsets

    def _restore_written(self, offsets: npt.NDArray[np.int64] | Words, values: Words) -> None:
        self._written_state[offsets] = values

    def _add_changes(self, offsets: Words, masks: Words | int, values: Words) -> None:
        self.on_undo(partial(self._restore_written, offsets, self._written_state[offsets]))
        self._written_state[offsets] = self._written_state[offsets] & ~np.uint64(masks) | values & np.uint64(
            masks
        )
        self._pending_changes.append(_make_changes(offsets, masks, values))

    def _apply_pending_changes(self, is_atomic: bool = False) -> None:
        batches, self._pending_changes = self._pending_changes, []
        changes = np.concatenate(batches) if batches else _NO_CHANGES
        if is_atomic and len(changes) > MAX_CHANGES:
            limit = f"the kernel takes {MAX_CHANGES} at once"
            raise BatchTooLarge(f"the batch changes {pluralize(len(changes), 'word')}, and {limit}")
        for first in range(0, len(changes), MAX_CHANGES):
            chunk = changes[first : first + MAX_CHANGES]
            if self._unreplayed_changes:
                self._skip_replayed(len(chunk))
                continue
            words = chunk.ravel()
            self._mailbox[_CHANGES : _CHANGES + len(words)] = words
            self._mailbox[_CHANGE_COUNT] = len(chunk)
            self._run(_FRAME)
            self._mailbox[_CHANGE_COUNT] = 0

    def _skip_replayed(self, count: int) -> None:
        """Skip changes that have been applied; a step is applied as a whole or not at all."""
        if self._unreplayed_changes < count:
            raise KernelError(
                f"the replayed journal differs from the tables: expected at most {self._unreplayed_changes} "
                f"more changes, got {count}"
            )
        self._unreplayed_changes -= count

    def close(self) -> None:
        bpf.close(self._program)
        super().close()


def _make_changes(offsets: Words, masks: Words | int, values: Words) -> Words:
    changes = np.empty((len(offsets), _CHANGE_WORDS), dtype=np.uint64)
    changes[:, 0], changes[:, 1], changes[:, 2] = offsets, masks, values
    return changes
