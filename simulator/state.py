"""A network in virtual time, as arrays of records: all that the compiled event loop works on.

Hosts are numbered workers first, then servers; a host's port at the switch is its number + 1. All times are
ns of one clock.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, cast

import numpy as np

from foundation.protocol.frames import FRAME_OVERHEAD
from foundation.protocol.rpc import BUFFER_BYTES, RPC, Rpc
from nativekit.records import Int32, Ints, Octets, Records, checked, dtype_of
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


class Event:
    """What will happen; half a line of a cache."""

    time: int
    order: int
    kind: Int32
    who: Int32
    frame: int


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


class Frame:
    """A `FRAME` record."""

    head: Octets
    rpc: Rpc
    length: int
    arrival: int


assert tuple(Frame.__annotations__) == FRAME.names


class Link:
    """One direction of a cable and the queue before it."""

    delay: int
    ps_per_byte: int
    limit: int
    """Bytes that the queue holds."""
    mark: int
    """Bytes beyond which frames are marked (ECN)."""
    late_ns: int
    """Maximum extra delay of a reordered frame."""
    impaired: int
    """Whether the probabilities have an effect."""
    down: int
    free_at: int
    loss: float
    duplication: float
    reordering: float
    frames: int
    bytes: int
    dropped: int
    dropped_bytes: int
    lost: int
    lost_bytes: int
    doubled: int
    doubled_bytes: int
    late: int
    marked: int
    delivered: int
    delivered_bytes: int
    longest: int
    """Maximum length of the queue, bytes."""
    waited: int
    """Time in the queue, of all frames, ns."""
    carried: int
    """Time on the wire, of all frames, ns."""


class Outage:
    """An outage of a host's cable, in both directions; times in ns."""

    host: int
    begins: int
    lasts: int
    every: int
    """Period after which it happens again; 0: once."""
    late: int
    """Extra delay of a frame."""
    down: int
    """Whether frames are lost."""


class Agent:
    """A process: a worker or a server; times in ns."""

    core: int
    state: int
    half: int
    busy: int
    alarm: int
    until: int
    """When its driver wants to be asked."""
    first: int
    """Where the ring of its frames begins."""
    waiting: int
    """Frames in that ring."""
    overflown: int
    steps: int
    used_ns: int
    queued_at: int
    queued_ns: int
    cold: int
    """Whether it has woken its core up."""
    dead: int
    """Whether it does nothing."""
    stalled: int
    """Time before which a server does nothing."""


class Core:
    """A CPU."""

    running: int
    """The agent that it runs."""
    first: int
    """Where the ring of the agents begins that wait for it."""
    waiting: int
    """Agents in that ring."""
    since: int


class Costs:
    """What agents take, ns (`simulator.costs`)."""

    wake: int
    idle: int
    slice: int
    encode: int
    send: int
    burst: int
    serve_burst: int
    serve_send: int
    connection: int
    lane: int
    inline: int
    """Whether a frame passes the program on the core of its sender, and does not go up its cable."""
    program: int
    hit: int
    noise_every: int
    noise: int
    receive: Annotated[Ints, QUANTILES]
    """Quantiles of a distribution."""
    serve: Annotated[Ints, QUANTILES]
    """Quantiles of a distribution."""


class WorldHeader:
    """The record of numbers."""

    now: int
    order: int
    events: int
    free: int
    workers: int
    servers: int
    rack: int
    connections: int
    who: int
    process: int
    memory: int
    out: int
    out_bytes: int
    passes: int
    delivered: int
    is_off: int
    """Whether the switch is off."""
    refused: int
    """Frames that were lost because the switch was off."""
    aside: int
    """Frames that are left to Python."""
    switch_latency: int
    """Time of a frame through the switch, ns."""
    switch_ps: int
    """Time after which the next frame may begin, ps."""
    switch_free_ps: int
    """When the next frame may begin, ps."""
    switch_waited: int
    """Time that frames waited for that, ns."""
    random: np.uint64


EVENT, LINK, SPELL, AGENT, CORE = map(dtype_of, (Event, Link, Outage, Agent, Core))
COSTS, ME = dtype_of(Costs), dtype_of(WorldHeader)


class World(NamedTuple):
    """Workers, servers and the switch between them; n hosts, and up to e events and f frames."""

    me: WorldHeader
    heap: Records[Event]
    """EVENT[e]: what will happen, the next first."""
    frames: Records[Frame]
    """FRAME[f]"""
    free: Ints
    """int64[f]: the first me.free are frames that nobody has."""
    up: Records[Link]
    """LINK[n], from each host to the switch."""
    down: Records[Link]
    """LINK[n], from the switch to each host."""
    racks_up: Records[Link]
    """LINK[r], from the switch of each rack to the P4 switch; r is 0 where each worker has a port."""
    racks_down: Records[Link]
    """LINK[r], the other way."""
    ports: Ints
    """int64[n]: port of each host; `me.rack` workers share one."""
    at_port: Ints
    """int64[PORT_NUMBERS]: the first host at each port, or NOBODY."""
    spells: Records[Outage]
    """SPELL[s]"""
    port_queues: Queues
    """Of the traffic manager, by the first host at a port; none where frames wait before their cables."""
    waiting: Octets
    """uint8[slots, bytes]: the record of each packet in them."""
    aside: Ints
    """int64[ASIDE, 2]: host, NOBODY for the switch's CPU port, and frame of what the loop leaves to
    Python."""
    agents: Records[Agent]
    """AGENT[n]"""
    inbox: Ints
    """int64[n, 2^k]: rings of frames that wait for each agent."""
    cores: Records[Core]
    """CORE[c]"""
    queues: Ints
    """int64[c, 2^k]: rings of agents that wait for each core."""
    burst: Ints
    """int64[BURST]: frames that leave with the next flush."""
    heads: Octets
    """uint8[n, peers, HEAD_BYTES]: of a frame of each agent to each peer."""
    costs: Costs
    calls: Any  # no type has the same arrays with one more axis
    """Of all workers, of the class of their design's state: each array has one more axis in front, [workers],
    but those that are only read, which all share."""
    servers: Any  # likewise
    """Of all servers: each array has one more axis in front, [servers]."""


def record_of(world: World) -> np.record:
    """Return the record of numbers as numpy has it, to copy it and to write fields by name."""
    return cast(np.record, world.me)
