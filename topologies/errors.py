"""Exceptions of the topologies and the runner; each message is one line meant for the user."""


class TopologyError(Exception):
    """Base of everything that the topologies and the runner report to the user."""


class ConfigError(TopologyError):
    """A configuration value is wrong; the text names the value, its place and what would be right."""


class PreflightError(TopologyError):
    """Something that a run needs is missing, or something is in its way."""


class SwitchFailed(TopologyError):
    """The switch process did not start, or died."""


class AgentFailed(TopologyError):
    """A worker or PS agent died, answered an error, or did not answer in time."""


class AccountingError(TopologyError):
    """Updates were lost or values overflowed: the run's numbers cannot be trusted."""
