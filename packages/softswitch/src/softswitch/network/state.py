"""The state of a network in virtual time: arrays of records that the compiled event loop works on.

All times are ns since the network's start. An *interface* is an end of a link: a port of a switch, the one
port of a host, or the CPU port of a switch, whose other end is the controller. It has a number, which is
that of its outgoing direction (`LinkState`) and of its queues, too.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from nativekit.records import Int32, Ints, Octets, Records
from softswitch.queues.state import Queues

ARRIVES, DEPARTS, SENDS, IS_PROCESSED, WAKES = range(5)
"""Kinds of events: a frame arrives at an interface; a packet may leave the queues of an interface; a flow
sends its next frame; the latency of a switch is over for a frame; the compiled handler of a host is called
at a time of its choice."""
ABSENT = -1
"""Marks an interface, switch, host, flow or frame that does not exist."""
MAX_DEFERRED = 4096
"""Maximum number of frames and notices that wait for Python."""
AT_HOST, AT_CONTROLLER, NOTICE, CAPTURED, TRACED = range(5)
"""Kinds of deferred frames: a host receives it; a controller does, as packet-in; it is a notice of a program,
not a frame; it was copied for a capture of its link; or because it is of the traced flow."""
CONSTANT, POISSON, TRACE = range(3)
"""Kinds of flows: equal intervals, exponentially distributed ones, and times that are given."""


class ScheduledEvent:
    time: int
    order: int  # number of the event: events of equal times keep their order
    kind: Int32
    target: Int32  # number of the interface, flow or host
    frame: int  # number of the frame, or ABSENT


class FrameState:
    length: int  # bytes
    arrival: int  # time of arrival at a switch that has a latency
    flow: int  # the flow that sent it, or what it was made from; or ABSENT
    sent: int  # when the flow sent it


class LinkState:
    """One direction of a link.

    Frames wait for it in the queues of its interface; or, if it has a `limit`, in a queue of its own, of
    which only the time is known at which all frames in it will have left.
    """

    delay: int  # propagation delay
    picoseconds_per_byte: int  # 0 means unlimited bandwidth
    overhead: int  # bytes of the wire that each frame takes besides its own
    limit: int  # bytes that its own queue has room for; 0 means that it has none
    ecn_threshold: int  # bytes in this queue above which frames are marked
    max_extra_delay: int  # of a reordered frame
    is_impaired: int  # whether frames may be lost, doubled, delayed or changed at random
    is_captured: int  # whether Python gets a copy of each frame that is sent
    down_count: int  # number of outages under way
    free_at: int  # when the frame that is being sent will have left
    loss: float  # probabilities
    duplication: float
    reordering: float
    corruption: float
    frames: int  # number of frames sent, or that came to the link's own queue
    bytes: int
    dropped: int  # number of frames that found the link's own queue full
    dropped_bytes: int
    lost: int  # number of frames that an impairment or an outage took
    lost_bytes: int
    doubled: int  # number of frames that came twice
    doubled_bytes: int
    delayed: int  # number of reordered frames
    corrupted: int  # number of frames with a changed bit
    marked: int  # number of frames with an ECN mark because of the link's own queue
    delivered: int  # number of frames that arrived at the other end
    delivered_bytes: int
    busy: int  # time on the wire, of all frames
    waited: int  # time in the queue, of all frames that have left it
    longest_queue: int  # bytes in the link's own queue


class NetworkInterface:
    switch: int  # the switch whose port this is, or ABSENT
    host: int  # the host, or ABSENT
    port: int  # number of the port
    peer: int  # the interface at the other end; ABSENT for the controller
    pass_ns: int  # time that a pass of a frame that came in here takes before its outputs leave
    is_scheduled: int  # whether there is an event DEPARTS, or the interface is in `ready`


class SwitchState:
    process: int  # address of the packet function
    state: int  # address of the program's state
    is_off: int
    has_listener: int  # whether Python gets notices of its program
    latency: int  # time between a frame's arrival and its pass
    gap_ps: int  # minimum time between two passes of frames that arrive, ps
    free_ps: int  # when the next pass may begin, ps
    waited: int  # time before their passes, of all frames, without the latency
    reflect_ns: int  # further time of a pass before an output leaves where its frame came in
    passes: int  # number of calls of the packet function for frames that came in
    departures: int  # number of calls for packets that leave their queue
    refused: int  # number of frames that arrived while the switch was off
    no_such_port: int  # number of frames to ports without a link
    oversize: int  # number of frames and packets larger than a buffer, or too many for one pass
    lost_notices: int


class HostState:
    interface: int
    is_python: int  # whether Python gets all frames, also those of flows
    handler: int  # address of a compiled handler (`handlers.HANDLER_SIGNATURE`), or 0
    handler_state: int  # address of its state, an array
    handler_items: int  # items of this array
    wake_at: int  # when the handler wants to be called without a frame; negative for never
    wake_event_at: int  # time of the WAKES event, which may be earlier
    wake_frame: int  # the frame, without content, of this event; ABSENT if there is none
    frames: int  # number of frames received
    bytes: int


class Flow:
    kind: int
    host: int
    interval: int  # between two frames, or its mean
    first_template: int
    templates: int  # number of frames that are sent in turn
    first_time: int  # position in `times`, of a TRACE
    begin: int
    count: int  # number of frames to send
    sent: int
    sent_bytes: int
    received: int  # by hosts; copies count as well
    received_bytes: int
    delay: int  # sum of the times from sending to receipt
    min_delay: int
    max_delay: int
    last_received: int
    is_logged: int  # whether receipts are written into `receipts`
    random: np.uint64


class Template:
    """A frame that flows send: its place in `template_octets`."""

    offset: int
    length: int


class Receipt:
    flow: int
    host: int
    sent: int
    received: int
    length: int


class Deferred:
    kind: int
    target: int  # the host, switch or interface
    frame: int


class NetworkHeader:
    now: int
    order: int  # number of the next event
    events: int  # number of scheduled events
    free: int  # number of unused frames
    handled_events: int
    events_at_once: int  # number of events handled since the time changed last
    ready: int  # number of interfaces in `ready`
    deferred: int
    failed_host: int  # the host whose handler has failed, or ABSENT
    failed_length: int  # bytes of the frame that its handler tried to send, or ABSENT for an exception
    receipts: int
    traced: int  # the flow whose frames Python gets copies of on each link, or ABSENT
    out: int  # address of the output records of a pass
    out_bytes: int
    frames_at: int  # address of the first frame
    frame_stride: int  # bytes between two buffers, which is their size
    frame_offset: int  # bytes of a buffer before its frame
    frame_room: int  # bytes of a buffer for its frame
    random: np.uint64


class Medium(Protocol):
    """Any state with frames, and with events for their arrivals."""

    @property
    def header(self) -> NetworkHeader: ...

    @property
    def heap(self) -> Records[ScheduledEvent]: ...

    @property
    def frames(self) -> Records[FrameState]: ...

    @property
    def free(self) -> Ints: ...


class BufferedFrames(Medium, Protocol):
    @property
    def octets(self) -> Octets: ...


class Fabric(Medium, Protocol):
    """Any state with links, switches and their queues. Its fields are those of `NetworkState`."""

    @property
    def links(self) -> Records[LinkState]: ...

    @property
    def interfaces(self) -> Records[NetworkInterface]: ...

    @property
    def ports(self) -> Ints: ...

    @property
    def switches(self) -> Records[SwitchState]: ...

    @property
    def queues(self) -> Queues: ...

    @property
    def queued(self) -> Ints: ...

    @property
    def ready(self) -> Ints: ...

    @property
    def deferred(self) -> Records[Deferred]: ...


class NetworkState(NamedTuple):
    """Switches s, hosts h, interfaces i, flows k, frames f and events e."""

    header: NetworkHeader
    heap: Records[ScheduledEvent]  # EVENT[e]: scheduled events, the next first
    frames: Records[FrameState]  # FrameState[f]
    octets: Octets  # uint8[f, frame_stride]: the buffers of the frames, which begin at `frame_offset`
    free: Ints  # int64[f]: the first header.free are unused frames
    links: Records[LinkState]  # LinkState[i]: the direction that leaves each interface
    interfaces: Records[NetworkInterface]  # NetworkInterface[i]
    ports: Ints  # int64[s, PORT_NUMBERS]: interface at each port of each switch, or ABSENT
    switches: Records[SwitchState]  # SwitchState[s]
    hosts: Records[HostState]  # HostState[h]
    queues: Queues  # of the interfaces, by their numbers
    queued: Ints  # int64[slots]: the frame, or the record of a switch's packet, in each slot of the queues
    ready: Ints  # int64[i]: interfaces from whose queues packets may depart now
    flows: Records[Flow]  # Flow[k]
    times: Ints  # int64[n]: when the flows of kind TRACE send, ns since the flow's begin
    templates: Records[Template]
    template_octets: Octets
    receipts: Records[Receipt]  # the first header.receipts are used
    deferred: Records[Deferred]  # the first header.deferred are used
