from __future__ import annotations

from foundation.errors import HotlineError


class MachinesError(HotlineError):
    """The machines cannot carry a run; the message names the machine, the value and what was expected."""


class MachineLost(HotlineError):
    """There is no connection to the supervisor of a machine any more."""
