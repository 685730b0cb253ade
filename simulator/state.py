"""A network in virtual time, as arrays of records: all that the compiled event loop works on.

Hosts are numbered workers first, then servers; a host's port at the switch is its number + 1. All times are
ns of one clock.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from foundation.protocol.frames import FRAME_OVERHEAD
from foundation.protocol.rpc import BUFFER_BYTES, RPC
from nativekit.records import checked, record
from softswitch.queues import Queues

HEAD_BYTES = FRAME_OVERHEAD
"""Of Ethernet, IPv4 and UDP."""
(
    AT_SWITCH, AT_HOST, STEP, ALARM, AT_RACK, FROM_RACK, SPELL_BEGINS, SPELL_ENDS, DEPARTS_FROM,
    THROUGH_SWITCH,
) = range(10)  # fmt: skip
"""Kinds of events: a frame has come to the switch or to a host; an agent goes on; its alarm goes off; a frame
has come up, or down, to the switch of a rack; a cable begins or ends to be bad; a packet may
leave the queue of a port; a frame has taken the time that the switch takes for it."""
BLOCKED, READY, RUNNING = 0, 1, 2
"""An agent waits for something; for its core; has its core."""
SENDS, RECEIVES = 0, 1
"""Halves of a worker's loop."""
QUANTILES = 256
ASIDE = 128
"""Frames that one event leaves to Python at most."""
NOBODY = -1

EVENT = record("time", "order", ("kind", np.int32), ("who", np.int32), "frame")
"""Half a line of a cache."""
_RPC_AT = 64
FRAME = checked(
    np.dtype(
        {
            "names": ["head", "rpc", "length", "arrival"],
            "formats": [("u1", (HEAD_BYTES,)), RPC, "i8", "i8"],
            "offsets": [_RPC_AT - HEAD_BYTES, _RPC_AT, _RPC_AT + BUFFER_BYTES, _RPC_AT + BUFFER_BYTES + 8],
            "itemsize": _RPC_AT + BUFFER_BYTES + 64,
        }
    )
)
"""A frame in its buffer: the datagram stands right behind the head, in words of its own."""
LINK = record(
    "delay", "ps_per_byte", "limit", "mark", "late_ns", "impaired", "down", "free_at",
    ("loss", np.float64), ("duplication", np.float64), ("reordering", np.float64),
    "frames", "bytes", "dropped", "dropped_bytes", "lost", "lost_bytes", "doubled", "doubled_bytes", "late",
    "marked", "delivered", "delivered_bytes", "longest", "waited", "carried",
)  # fmt: skip
"""One direction of a cable and the queue before it: `limit` and `mark` in bytes; `waited` adds up the time in
the queue, `longest` is its longest in bytes, and `carried` adds up the time on the wire. Probabilities have
no effect unless `impaired`."""
SPELL = record("host", "begins", "lasts", "every", "late", "down")
"""A host's cable is `down`, or `late` ns slower, both ways, for a time; again after `every` ns, unless 0."""
AGENT = record(
    "core", "state", "half", "busy", "alarm", "until", "first", "waiting", "overflown", "steps", "used_ns",
    "queued_at", "queued_ns", "cold", "dead", "stalled",
)  # fmt: skip
"""A process, `cold` where it has woken its core up: `first` and `waiting` are of its ring of frames, and its
driver wants to be asked at `until`. One that is `dead` does nothing, and a server nothing before
`stalled`."""
CORE = record("running", "first", "waiting", "since")
"""A CPU: the agent that it runs, and the ring of those that wait for it."""
COSTS = record(
    "wake", "idle", "slice", "encode", "send", "burst", "serve_burst", "serve_send", "connection", "lane",
    "inline", "program", "hit", "noise_every", "noise",
    ("receive", "i8", (QUANTILES,)), ("serve", "i8", (QUANTILES,)),
)  # fmt: skip
"""What agents take, ns (`simulator.costs`); the last two are quantiles of a distribution. Where the program
runs `inline` a frame passes it on the core of its sender, and does not go up its cable."""
ME = record(
    "now", "order", "events", "free", "workers", "servers", "rack", "connections", "who",
    "process", "memory", "out", "out_bytes", "passes", "delivered", "is_off", "refused", "aside",
    "switch_latency", "switch_ps", "switch_free_ps", "switch_waited", ("random", "u8"),
)  # fmt: skip
"""`is_off`: the switch is, and frames that it `refused` are gone; `aside`: frames that are left to Python.
A frame takes the switch's `switch_latency` (ns), and the next may begin `switch_ps` after it, from
`switch_free_ps` on; `switch_waited` adds up how long frames waited for that (ns)."""


class World(NamedTuple):
    """Workers, servers and the switch between them; n hosts, and up to e events and f frames."""

    me: Any
    """A record of numbers."""
    heap: Any
    """EVENT[e]: what will happen, the next first."""
    frames: Any
    """FRAME[f]"""
    free: Any
    """int64[f]: the first me.free are frames that nobody has."""
    up: Any
    """LINK[n], from each host to the switch."""
    down: Any
    """LINK[n], from the switch to each host."""
    racks_up: Any
    """LINK[r], from the switch of each rack to the P4 switch; r is 0 where each worker has a port."""
    racks_down: Any
    """LINK[r], the other way."""
    ports: Any
    """int64[n]: port of each host; `me.rack` workers share one."""
    at_port: Any
    """int64[PORT_NUMBERS]: the first host at each port, or NOBODY."""
    spells: Any
    """SPELL[s]"""
    port_queues: Queues
    """Of the traffic manager, by the first host at a port; none where frames wait before their cables."""
    waiting: Any
    """uint8[slots, bytes]: the record of each packet in them."""
    aside: Any
    """int64[ASIDE, 2]: host, NOBODY for the switch's CPU port, and frame of what the loop leaves to
    Python."""
    agents: Any
    """AGENT[n]"""
    inbox: Any
    """int64[n, 2^k]: rings of frames that wait for each agent."""
    cores: Any
    """CORE[c]"""
    queues: Any
    """int64[c, 2^k]: rings of agents that wait for each core."""
    burst: Any
    """int64[BURST]: frames that leave with the next flush."""
    heads: Any
    """uint8[n, peers, HEAD_BYTES]: of a frame of each agent to each peer."""
    costs: Any
    """A COSTS record."""
    calls: Any
    """Of all workers, of the class of their design's state: each array has one more axis in front, [workers],
    but those that are only read, which all share."""
    servers: Any
    """Of all servers: each array has one more axis in front, [servers]."""
