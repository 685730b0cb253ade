"""Errors of the agents."""

from __future__ import annotations

from common.errors import HotlineError


class AgentConfigError(HotlineError):
    """An agent's configuration or command is wrong; the text names the value and its place."""


class LedgerError(HotlineError):
    """A ledger file that cannot be read as one."""
