"""The state of a simulated network: arrays of records that the compiled event loop works on.

Hosts are numbered from 0, workers first, then servers; a host's port at the switch is its number + 1. All
times are ns of one clock.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import numpy as np

from foundation.compiled import loop
from foundation.protocol.frames import FRAME_OVERHEAD
from foundation.protocol.rpc import BUFFER_BYTES, RPC, Rpc
from hotline_agents.interface import SERVER_OPS, WORKER_OPS
from nativekit.generic import Generic
from nativekit.records import Ints, Octets, Records, check_field_names, dtype_of
from nativekit.reference import write_words
from softswitch.network.state import ScheduledEvent
from softswitch.queues.state import Queues

HEAD_BYTES = FRAME_OVERHEAD
(
    AT_SWITCH, AT_HOST, STEP, ALARM, AT_RACK, FROM_RACK, OUTAGE_BEGINS, OUTAGE_ENDS, DEPARTS_FROM,
    SWITCH_LATENCY_OVER,
) = range(10)  # fmt: skip
"""Kinds of events: a frame has reached the switch, or a host; an agent continues; its alarm fires; a frame
has come up to the switch of a rack, or down to it; an outage of a cable begins, or ends; a packet may leave
the queue of a port; the latency of the switch for a frame is over."""
BLOCKED, READY, RUNNING = 0, 1, 2  # state of an agent
SENDS, RECEIVES = 0, 1  # phase of a worker: what it does in its next step
QUANTILES = 256  # of a measured duration, to draw from
MAX_DEFERRED = 128
"""Maximum number of frames that one event defers to Python."""
ABSENT = -1
"""Marks an agent, host or frame that does not exist."""


_RPC_OFFSET = _CACHE_LINE_BYTES = 64
FRAME = check_field_names(
    np.dtype(
        {
            "names": ["head", "rpc", "length", "arrival"],
            "formats": [("u1", (HEAD_BYTES,)), RPC, "i8", "i8"],
            "offsets": [
                _RPC_OFFSET - HEAD_BYTES,
                _RPC_OFFSET,
                _RPC_OFFSET + BUFFER_BYTES,
                _RPC_OFFSET + BUFFER_BYTES + 8,
            ],
            "itemsize": _RPC_OFFSET + BUFFER_BYTES + _CACHE_LINE_BYTES,
        }
    )
)
"""A frame in its buffer: the datagram follows the head and is aligned to words."""


class Frame:
    head: Octets
    rpc: Rpc
    length: int  # bytes of head and datagram
    arrival: int  # when the frame reached its host, or a switch with a latency


assert tuple(Frame.__annotations__) == FRAME.names


class Link:
    """One direction of a cable and the queue before it."""

    delay: int  # propagation delay, ns
    picoseconds_per_byte: int  # 0 means unlimited bandwidth
    limit: int  # bytes that the queue has room for
    ecn_threshold: int  # bytes in the queue above which frames are marked
    max_extra_delay_ns: int  # of a reordered frame
    impaired: int  # whether frames may be lost, doubled or delayed at random
    down_count: int  # number of outages under way that drop all frames
    free_at: int  # when all queued frames will have left, ns
    loss: float
    duplication: float
    reordering: float
    frames: int  # number of frames that came to the queue
    bytes: int
    dropped: int  # number of frames that found the queue full
    dropped_bytes: int
    lost: int  # number of frames that a fault or an outage took
    lost_bytes: int
    doubled: int  # number of frames that came twice
    doubled_bytes: int
    delayed: int  # number of reordered frames
    marked: int  # number of frames with an ECN mark because of the queue
    delivered: int  # number of frames that arrived
    delivered_bytes: int
    longest_queue: int  # bytes
    waited: int  # time in the queue, of all frames, ns
    carried: int  # time on the wire, of all frames, ns


class Outage:
    host: int
    begin_ns: int
    duration_ns: int
    period_ns: int  # period after which the outage recurs; 0 means once
    extra_delay_ns: int
    drops_frames: int


class SimulatedAgent:
    """A process: a worker or a server; times in ns."""

    core: int
    state: int
    phase: int  # SENDS or RECEIVES, of a worker
    sent: int  # number of frames that a worker's latest burst has sent
    alarm: int  # when a blocked agent wakes without a frame
    driver_due: int  # when an idle worker's driver is due
    first: int  # start and length of the ring of its frames
    waiting: int
    steps: int
    bursts: int  # number of bursts of frames that a server has read
    waits: int  # number of times that the agent blocked and woke
    used_ns: int  # CPU time
    queued_at: int  # when the agent became ready
    queued_ns: int  # time that the agent was ready and had no core
    slowdown: float  # factor of the time that it takes to wake up
    woke_idle_core: int  # whether its core was idle when it became ready last
    dead: int
    is_external: int  # whether Python acts for the agent: frames that reach it are deferred
    stalled_until: int  # time before which a server does nothing


class SimulatedCore:
    running: int  # the agent that runs, or ABSENT
    first: int  # start and length of the ring of waiting agents
    waiting: int
    running_since: int


class AgentDurations:
    """Durations of agents, as in `costs.HostCosts`; servers have `serve_take_ns` and so on."""

    wake_ns: int
    idle_ns: int
    slice_ns: int
    encode_ns: int
    send_ns: int
    take_ns: int
    serve_take_ns: int
    serve_send_ns: int
    connection_ns: int
    lane_ns: int
    value_ns: float
    contention: float
    latency_ns: int
    has_request_threads: int
    program_runs_at_sender: int
    """Whether the program runs on the core of a frame's sender, whose cable the frame then does not cross."""
    program_ns: int
    lookup_ns: int
    hit_ns: int
    answer_ns: int
    noise_every_ns: int
    noise_ns: int
    receive_ns: Annotated[Ints, QUANTILES]  # quantiles to draw from, like `serve_ns`
    serve_ns: Annotated[Ints, QUANTILES]


class WorldHeader:
    now: int
    order: int  # number of the next event
    events: int  # number of scheduled events
    free: int  # number of unused frames
    workers: int
    servers: int
    workers_per_rack: int  # workers that share a port; 0 means that there are no racks
    connections: int  # number of connections that a server polls
    agent: int  # the agent that the loop has returned for
    packet_function: int  # address of the program's code
    memory: int  # address of the program's state
    out: int  # address of the program's output records
    out_bytes: int
    passes: int  # number of frames that the program has processed
    handled_events: int
    is_switch_off: int
    refused: int  # number of frames that came to a switch that is off
    deferred: int  # number of frames deferred to Python
    switch_latency: int  # time of a frame through the switch
    switch_interval_ps: int  # minimum time between two frames at the switch, ps
    switch_free_ps: int  # when the next frame may begin, ps
    switch_waited: int  # time before the switch, of all frames
    random: np.uint64


EVENT, WORLD_HEADER = dtype_of(ScheduledEvent), dtype_of(WorldHeader)


class World(NamedTuple):
    """Workers, servers and the switch between them; n hosts, and up to e events and f frames."""

    header: WorldHeader
    heap: Records[ScheduledEvent]  # EVENT[e]: scheduled events, the next first
    frames: Records[Frame]
    free: Ints  # int64[f]: the first header.free are unused frames
    up: Records[Link]  # Link[n], from each host to the switch; `down`: from the switch to each host
    down: Records[Link]
    racks_up: Records[Link]
    """Link[r], from each rack's switch to the P4 switch, and back; r is 0 if each worker has a port."""
    racks_down: Records[Link]
    ports: Ints  # int64[n]: port of each host; `header.workers_per_rack` workers share one
    host_at_port: Ints  # int64[PORT_NUMBERS]: the first host at each port, or ABSENT
    outages: Records[Outage]
    port_queues: Queues
    """Queues of the traffic manager, by the first host at a port; none if frames queue at their cables."""
    waiting: Octets  # uint8[slots, bytes]: the record of each packet in these queues
    deferred: Ints
    """int64[MAX_DEFERRED, 2]: host (ABSENT for the CPU port) and number of each frame deferred to Python."""
    agents: Records[SimulatedAgent]
    inbox: Ints  # int64[n, 2^k]: rings of frames that wait for each agent
    cores: Records[SimulatedCore]
    run_queues: Ints  # int64[c, 2^k]: rings of agents that wait for each core
    burst: Ints  # int64[BURST]: frames that `send_burst` sends
    heads: Octets  # uint8[n, peers, HEAD_BYTES]: heads of the frames of each agent to each peer
    costs: AgentDurations
    workers: Any  # a design's state class, whose arrays have one more axis
    """States of all workers, of the class of their design's state: each array has one more axis in front,
    [workers], except read-only arrays, which all workers share."""
    servers: Any  # likewise


def _states(world: World) -> list[tuple[Generic, type]]:
    return [(_TRANSMIT, type(world.workers)), (_HANDLE, type(world.servers))]


_HERE = Path(__file__).parent
_TRANSMIT, _HANDLE = cast(Generic, WORKER_OPS.transmit), cast(Generic, SERVER_OPS.handle)
entry_point = loop(_states, _HERE)
write_world = entry_point(write_words)
