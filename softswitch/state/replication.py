"""Multicast groups and clone sessions in the shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from softswitch.errors import StateError, TableFull
from softswitch.limits import MAX_REPLICAS
from softswitch.memory.layout import CLONE_SESSIONS, MULTICAST_GROUPS, ReplicationLayout
from softswitch.pipeline import Replica
from softswitch.state.memory import Memory
from softswitch.state.pool import RunPool


class Replication:
    """Runs of replicas by the word that points to them."""

    def __init__(self, layout: ReplicationLayout, memory: Memory) -> None:
        self._layout = layout
        self._memory = memory
        self._pool = RunPool(memory.words[layout.pool : layout.pool + MAX_REPLICAS])

    def write_multicast_group(self, group: int, replicas: Sequence[Replica]) -> None:
        """Replace the copies of a group (`Pipeline.write_multicast_group`)."""
        if not 0 < group < MULTICAST_GROUPS:
            raise StateError(f"multicast group {group}: there are groups 1 to {MULTICAST_GROUPS - 1}")
        self._write(self._layout.multicast + group, replicas)

    def write_clone_session(self, session: int, replicas: Sequence[Replica], length: int) -> None:
        """Replace the copies of a session (`Pipeline.write_clone_session`)."""
        if not 0 <= session < CLONE_SESSIONS:
            raise StateError(f"clone session {session}: there are sessions 0 to {CLONE_SESSIONS - 1}")
        at = self._layout.sessions + 2 * session
        self._write(at, replicas)
        with self._memory.locked():
            self._memory.words[at + 1] = length

    def _write(self, at: int, replicas: Sequence[Replica]) -> None:
        if not self._pool.fits(at, len(replicas)):
            raise TableFull(f"groups and clone sessions are full: they hold {MAX_REPLICAS} replicas together")
        with self._memory.locked():
            moved = self._pool.put(at, [replica.port << 32 | replica.instance for replica in replicas])
            for key in self._pool.keys() if moved else [at]:
                self._memory.words[key] = self._pool.word(key)
