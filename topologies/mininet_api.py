"""Mininet's names, imported here only: `mininet.log` makes all later loggers ignore INFO."""

from __future__ import annotations

import logging

_class = logging.getLoggerClass()
try:
    from mininet.cli import CLI
    from mininet.log import lg, setLogLevel
    from mininet.net import VERSION, Mininet
    from mininet.node import Host, Switch
finally:
    logging.setLoggerClass(_class)

__all__ = ["CLI", "VERSION", "Host", "Mininet", "Switch", "lg", "setLogLevel"]
