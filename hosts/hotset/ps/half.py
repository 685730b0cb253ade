"""The server's half of the hot set, as loops call it."""

from __future__ import annotations

from foundation.designs.interface import ServerOps, register_server_ops
from hosts.hotset.ps.rpc import handle
from hosts.hotset.ps.state import Server, needs_room
from hosts.ps.prefetch import prefetch_index, prefetch_values
from hosts.ps.reply_only import never_wakes, no_address, no_octets, no_peer, sends_nothing
from hosts.ps.rpcs import charge, lanes_left, share_cpu, stamp

SERVER = register_server_ops(
    Server,
    ServerOps(
        handle, lanes_left, stamp, charge, share_cpu, needs_room,
        sends_nothing, no_address, no_octets, no_peer, never_wakes, prefetch_index, prefetch_values,
    ),
)  # fmt: skip
