"""Multicast groups and clone sessions in the shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from softswitch.checks import (
    check_clone_session,
    check_each_replica,
    check_multicast_group,
    check_replicas,
    check_value,
)
from softswitch.limits import MAX_REPLICAS
from softswitch.memory.layout import SESSION_WORDS, ReplicationLayout
from softswitch.memory.words import HALF, pack_halves
from softswitch.pipeline import Replica
from softswitch.state.memory import Memory
from softswitch.state.pool import RunPool


class Replication:
    """Multicast groups and clone sessions: runs of replicas by the offset of the word pointing to each."""

    def __init__(self, layout: ReplicationLayout, memory: Memory) -> None:
        self._layout = layout
        self._memory = memory
        self._pool = RunPool(memory, layout.pool, MAX_REPLICAS)

    def write_multicast_group(self, group: int, replicas: Sequence[Replica]) -> None:
        check_multicast_group(group)
        self._write(self._layout.multicast + group, replicas)

    def write_clone_session(self, session: int, replicas: Sequence[Replica], length: int = 0) -> None:
        check_clone_session(session)
        check_value(f"length of clone session {session}", length, HALF)
        self._write(self._layout.sessions + SESSION_WORDS * session, replicas, length)

    def _write(self, offset: int, replicas: Sequence[Replica], *next_words: int) -> None:
        """Replace the run that the word at `offset` points to, and store `next_words` after this word."""
        check_each_replica(replicas)
        values = [pack_halves(replica.port, replica.instance) for replica in replicas]
        with self._memory.control_lock:
            check_replicas(self._pool.used - self._pool.length(offset) + len(values))
            with self._memory.locked():
                for key in self._pool.put(offset, values):
                    self._memory.store(key, [self._pool.word(key)])
                self._memory.store(offset + 1, next_words)
