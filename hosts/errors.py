"""Errors of the agents."""

from __future__ import annotations

from foundation.errors import HotlineError


class AgentConfigError(HotlineError):
    """An agent's configuration or command is wrong; the text names the value and its place."""


class LedgerError(HotlineError):
    """A ledger file that cannot be read as one."""


class DurabilityError(HotlineError):
    """A PS's file that cannot be opened, read or written, or that is another PS's."""


class DurabilityPaused(DurabilityError):
    """The disk is full: what is not kept is not acknowledged, until there is room."""
