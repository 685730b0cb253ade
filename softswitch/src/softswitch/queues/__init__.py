"""Queues between ingress and egress: a FIFO for each port and priority, with a capacity and a rate.

`shape` what a port may send and keep, as users say it · `state` the records · `fifo` compiled functions:
`put` a packet in, `take` the next one out, and when that may be.

Nothing here knows sockets or clocks; time comes in as an argument, in ns of any one clock. Packets are the
caller's: a queue gives each a slot, by whose number it comes out again.
"""

from softswitch.queues.shape import DEFAULT_DEPTH, Depth, Rate, Shape, parse_depth, parse_rate
from softswitch.queues.state import NEVER, NONE, Queues, copy_settings, make_queues

__all__ = [
    "DEFAULT_DEPTH",
    "NEVER",
    "NONE",
    "Depth",
    "Queues",
    "Rate",
    "Shape",
    "copy_settings",
    "make_queues",
    "parse_depth",
    "parse_rate",
]
