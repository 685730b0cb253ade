"""Exceptions of the agents: everything a user may be told derives from `HostsError`."""


class HostsError(Exception):
    """Base of all errors that the agents and their tools report; its text is one clear line."""


class MalformedDatagram(HostsError):
    """A datagram that is no RPC of ours; the text names the field and what it holds."""


class ConfigError(HostsError):
    """An agent's configuration or command is wrong; the text names the value and its place."""


class WorkloadError(HostsError):
    """A training set, update log or trace that cannot be used; the text names the file and the line."""


class LedgerError(HostsError):
    """A ledger file that cannot be read as one."""
