"""Queues between ingress and egress: a FIFO for each port and priority, with a depth and a rate.

Time is an argument, in ns of any monotonic clock. The caller stores the packets; a queue gives each a slot
number.
"""

from softswitch.queues.shape import DEFAULT_DEPTH, Depth, Rate, Shape, parse_depth, parse_rate
from softswitch.queues.state import NEVER, NONE, Queue, Queues, copy_settings, make_queues

__all__ = [
    "DEFAULT_DEPTH",
    "NEVER",
    "NONE",
    "Depth",
    "Queue",
    "Queues",
    "Rate",
    "Shape",
    "copy_settings",
    "make_queues",
    "parse_depth",
    "parse_rate",
]
