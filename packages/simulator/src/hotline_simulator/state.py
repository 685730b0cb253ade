"""The state of a simulated network: arrays of records that the compiled event loop works on.

Hosts are numbered from 0, workers first, then servers; a host's port at the switch is its number + 1. All
times are ns of one clock.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

from foundation.compiled import loop
from foundation.protocol.frames import FRAME_OVERHEAD
from foundation.protocol.rpc import BUFFER_BYTES
from hotline_agents.interface import SERVER_OPS, WORKER_OPS
from nativekit.generic import Generic
from nativekit.records import CACHE_LINE_BYTES, Ints, Octets, Records, dtype_of
from nativekit.reference import write_words
from softswitch.network.state import (
    Deferred,
    FrameState,
    LinkState,
    NetworkHeader,
    NetworkInterface,
    ScheduledEvent,
    SwitchState,
)
from softswitch.queues.state import Queues

HEAD_BYTES = FRAME_OVERHEAD
STEP, ALARM, OUTAGE_BEGINS, OUTAGE_ENDS = range(4, 8)
"""Kinds of events besides those of networks: an agent continues; its alarm fires; an outage of a cable
begins, or ends."""
BLOCKED, READY, RUNNING = 0, 1, 2  # state of an agent
SENDS, RECEIVES = 0, 1  # phase of a worker: what it does in its next step
QUANTILES = 256  # of a measured duration, to draw from
FRAME_OFFSET = -HEAD_BYTES % CACHE_LINE_BYTES
"""Bytes of a buffer before its frame, whose datagram is then aligned to words."""
FRAME_BYTES = HEAD_BYTES + BUFFER_BYTES
P4_SWITCH = 0
"""Number of the switch with the program; the racks' switches, which only forward, follow."""


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
    noise_every_ns: int
    noise_ns: int
    receive_ns: Annotated[Ints, QUANTILES]  # quantiles to draw from, like `serve_ns`
    serve_ns: Annotated[Ints, QUANTILES]


class WorldHeader(NetworkHeader):
    OWN_FIELDS_FIRST = True  # one process compiles functions for both
    workers: int
    servers: int
    workers_per_rack: int  # workers that share a port; 0 means that there are no racks
    uplinks: int  # number of links between switches
    connections: int  # number of connections that a server polls
    agent: int  # the agent that the loop has returned for


EVENT, WORLD_HEADER = dtype_of(ScheduledEvent), dtype_of(WorldHeader)


class World(NamedTuple):
    """Workers, servers and the switch between them; n hosts, r racks, and up to e events and f frames.

    The first fields are those of `NetworkState`; `cabling` says how interfaces are numbered.
    """

    header: WorldHeader
    heap: Records[ScheduledEvent]
    frames: Records[FrameState]
    octets: Octets
    free: Ints
    links: Records[LinkState]
    interfaces: Records[NetworkInterface]
    ports: Ints
    switches: Records[SwitchState]
    queues: Queues  # of the traffic manager; none if frames queue at their cables
    queued: Ints
    ready: Ints
    deferred: Records[Deferred]
    outages: Records[Outage]
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

    @property
    def up(self) -> Records[LinkState]:
        """LinkState[n], from each host to its switch."""
        return self.links[: self._hosts]

    @property
    def down(self) -> Records[LinkState]:
        return self.links[self._hosts : 2 * self._hosts]

    @property
    def racks_up(self) -> Records[LinkState]:
        """LinkState[u], of racks to the P4 switch, or of leaves to spines; none if each worker has a port."""
        return self.links[2 * self._hosts : 2 * self._hosts + self.header.uplinks]

    @property
    def racks_down(self) -> Records[LinkState]:
        first = 2 * self._hosts + self.header.uplinks
        return self.links[first : first + self.header.uplinks]

    @property
    def _hosts(self) -> int:
        return int(self.header.workers + self.header.servers)


def _states(world: World) -> list[tuple[Generic, type]]:
    return [(_TRANSMIT, type(world.workers)), (_HANDLE, type(world.servers))]


_HERE = Path(__file__).parent
_TRANSMIT, _HANDLE = cast(Generic, WORKER_OPS.transmit), cast(Generic, SERVER_OPS.handle)
entry_point = loop(_states, _HERE)
write_world = entry_point(write_words)
