"""What the testbed takes from Mininet, which is imported here and nowhere else.

`mininet.log` makes its own class that of every logger made later, and that one is deaf to INFO.
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
