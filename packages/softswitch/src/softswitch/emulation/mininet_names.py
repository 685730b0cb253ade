"""Mininet's names; import them only from here: `mininet.log` makes all later loggers ignore INFO."""

from __future__ import annotations

import logging

_logger_class = logging.getLoggerClass()
try:
    from mininet.cli import CLI
    from mininet.log import lg, setLogLevel
    from mininet.net import Mininet
    from mininet.node import Node, Switch
    from mininet.util import quietRun
finally:
    logging.setLoggerClass(_logger_class)

__all__ = ["Mininet", "NetworkCli", "Node", "SwitchNode", "set_up_mininet"]


class SwitchNode(Switch):  # type: ignore[misc]  # Mininet has no types
    """The interfaces of a switch, whose process is not Mininet's to start or stop."""

    def start(self, controllers: object) -> None: ...

    def stop(self, deleteIntfs: bool = True) -> None: ...


class NetworkCli(CLI):  # type: ignore[misc]  # Mininet has no types
    """Mininet's command line, which Ctrl-C at its prompt ends; during a host's command it ends this one."""

    def run(self) -> None:
        if self.isatty():
            quietRun("stty echo sane intr ^C")
        self.cmdloop()


def set_up_mininet() -> None:
    """Have Mininet print the output of its command line, and errors, but not those of its set-up.

    In containers it cannot set the buffers of TCP and the caches of the kernel, and would report that.
    """
    lg.propagate = False
    setLogLevel("critical")
    Mininet.init()
    setLogLevel("output")
