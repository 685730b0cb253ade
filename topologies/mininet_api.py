"""The names that the testbed uses of Mininet, which no other module imports.

`mininet.log` sets the class of all loggers made after it to its own, which ignores INFO.
"""

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
