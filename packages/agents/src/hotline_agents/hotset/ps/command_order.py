"""The order of a PS's controllers, and of the commands of each. No clock takes part."""

from __future__ import annotations

from typing import TypedDict

from foundation.protocol.control import SLOTS

_EPOCHS = 2**32


class CommandOrderSnapshot(TypedDict):
    controller: int | None
    issued: int
    latest: list[int]


class CommandOrder:
    """Which commands of one job a PS may execute: those of its newest controller, each once.

    A late copy of an earlier command could undo a later one. An epoch is newer than the newest controller's
    if the PS has issued it since. Of two controllers the second one asks for its epoch when it is primary,
    which the first one no longer is, so it gets the later epoch. An epoch that is never used changes nothing.
    """

    def __init__(self) -> None:
        self._controller: int | None = None  # epoch of the newest controller
        self._issued = 0  # latest issued epoch
        self._latest = [-1] * SLOTS  # latest sequence number of each slot of the newest controller

    def admits(self, epoch: int) -> bool:
        """Return whether an epoch is the newest controller's; one that was issued since becomes the newest.

        The first controller of a PS may have any epoch.
        """
        if self._controller is None:
            self._controller = self._issued = epoch
        if (epoch - self._controller) % _EPOCHS > (self._issued - self._controller) % _EPOCHS:
            return False
        if epoch != self._controller:
            self._controller, self._latest = epoch, [-1] * SLOTS
        return True

    def issue(self) -> int:
        """Return an epoch that is later than the newest controller's, and than all issued before."""
        self._issued = (self._issued + 1) % _EPOCHS
        return self._issued

    def is_first_copy(self, seq: int) -> bool:
        """Return whether a command of the newest controller comes for the first time."""
        slot = seq % SLOTS
        is_first = seq > self._latest[slot]
        self._latest[slot] = max(seq, self._latest[slot])
        return is_first

    def snapshot(self) -> CommandOrderSnapshot:
        return {"controller": self._controller, "issued": self._issued, "latest": self._latest}

    def restore(self, snapshot: CommandOrderSnapshot) -> None:
        self._controller, self._issued = snapshot["controller"], snapshot["issued"]
        self._latest = list(snapshot["latest"])
