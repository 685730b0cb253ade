"""The epochs of a run's workers: each process of a rank is in a later one than the process before it.

The switch takes RPCs of the last epoch only, so no RPC of one process is taken for one of another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from controller.tables import InitialRow, WorkerRow
from experiment.run_config import EPOCH


class WorkerEpochs:
    def __init__(self) -> None:
        self._begin_epochs: dict[int, list[int]] = {}

    def begin_epochs(self, number: int) -> list[int]:
        """Return the epochs with which the processes of a worker began, oldest first."""
        return self._begin_epochs.get(number, [EPOCH])

    def add_process(self, number: int, switch: int) -> int:
        """Note another process of a worker, which begins with switch number `switch`; return its epoch."""
        epochs = self._begin_epochs[number] = [*self.begin_epochs(number), 0]
        epochs[-1] = self.current(number, switch)
        return epochs[-1]

    def current(self, number: int, switch: int) -> int:
        """Return the epoch of a worker's last process, or of a server, while switch number `switch` runs."""
        return EPOCH + switch + len(self.begin_epochs(number)) - 1

    def rows(self, rows: Iterable[InitialRow], switch: int) -> list[InitialRow]:
        """Return a run's rows with the current epochs of all callers."""
        return [
            replace(row, epoch=self.current(row.worker, switch)) if isinstance(row, WorkerRow) else row
            for row in rows
        ]
