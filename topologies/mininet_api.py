"""Mininet's names; import them only from here: `mininet.log` makes all later loggers ignore INFO."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

_logger_class = logging.getLoggerClass()
try:
    from mininet.cli import CLI
    from mininet.log import StreamHandlerNoNewline, lg, setLogLevel
    from mininet.net import VERSION, Mininet
    from mininet.node import Host, Switch
finally:
    logging.setLoggerClass(_logger_class)

__all__ = ["CLI", "VERSION", "Host", "Mininet", "Switch", "set_up_mininet"]


class _CurrentStderr(StreamHandlerNoNewline):  # type: ignore[misc]  # Mininet has no types
    """A handler for the present `sys.stderr`, which bars replace, so that messages stand above them."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(logging.Formatter("%(message)s"))

    @property
    def stream(self) -> TextIO:
        return sys.stderr


def set_up_mininet() -> None:
    """Set Mininet's limits, and have it print the output of its command line, warnings and errors.

    In containers it cannot set the buffers of TCP and the caches of the kernel, which nothing here needs, and
    would warn of that.
    """
    if not isinstance(lg.ch, _CurrentStderr):
        lg.removeHandler(lg.ch)
        lg.ch = _CurrentStderr()
        lg.addHandler(lg.ch)
    lg.propagate = False
    setLogLevel("error")
    Mininet.init()
    setLogLevel("output")
