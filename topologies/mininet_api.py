"""Mininet's names; import them only from here: `mininet.log` makes all later loggers ignore INFO."""

from __future__ import annotations

import logging

_logger_class = logging.getLoggerClass()
try:
    from mininet.cli import CLI
    from mininet.log import lg, setLogLevel
    from mininet.net import VERSION, Mininet
    from mininet.node import Host, Switch
finally:
    logging.setLoggerClass(_logger_class)

__all__ = ["CLI", "VERSION", "Host", "Mininet", "Switch", "lg", "setLogLevel"]
