"""The server's half of the hot set, as loops call it."""

from __future__ import annotations

from foundation.designs.halves import server_half
from foundation.designs.interface import ServerHalf
from hosts.hotset.ps.rpc import handle
from hosts.hotset.ps.state import Server, needs_room
from hosts.ps.ahead import fetch, seek
from hosts.ps.rpcs import charge, lanes_left, share_cpu, stamp
from hosts.ps.silent import never_wakes, no_address, no_octets, no_peer, sends_nothing

SERVER = server_half(
    Server,
    ServerHalf(
        handle, lanes_left, stamp, charge, share_cpu, needs_room,
        sends_nothing, no_address, no_octets, no_peer, never_wakes, seek, fetch,
    ),
)  # fmt: skip
