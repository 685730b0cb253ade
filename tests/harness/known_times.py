"""`python -m tests.harness.known_times --config FILE`: an agent that takes a known time for each datagram.

It is a PS or a worker by its configuration, and runs its loop as plain Python. The time depends on the job.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import hotline_agents.ps.__main__ as ps
import hotline_agents.worker.__main__ as worker
from hotline_agents.hotset.ps.rpc import handle
from hotline_agents.hotset.worker.answers import receive
from hotline_agents.hotset.worker.state import Calls
from hotline_agents.ps.compiled_loop import serve
from hotline_agents.ps.server_sockets import ServerSockets
from hotline_agents.worker.compiled_loop import operate
from hotline_agents.worker.trainer import spin_until
from nativekit.plain import plain

SLOW, QUICK = 2, 6
"""Jobs: those of *baseline* and *repeat*, arms that are the same but for this."""
TAKES_NS = {SLOW: 6_000_000, QUICK: 3_000_000}

_handle, _receive = plain(handle), plain(receive)


def _long_handle(server: Any, rpc: Any, length: int, arrival: int, answer: Any) -> int:
    until = time.monotonic_ns() + TAKES_NS[socket.ntohs(int(rpc.job))]
    octets = _handle(server, rpc, length, arrival, answer)
    spin_until(until)
    return octets


def _long_receive(state: Calls, rpc: Any, length: int, arrival: int, read: int) -> int:
    until = time.monotonic_ns() + TAKES_NS[int(state.header.job)]
    row = _receive(state, rpc, length, arrival, read)
    spin_until(until)
    return row


def main() -> None:
    is_ps = "ps" in json.loads(Path(sys.argv[-1]).read_text())
    slow_serve = plain(serve, {handle: _long_handle})
    with (
        patch.object(ps, "ServerSockets", partial(ServerSockets, serve=slow_serve)),
        patch.object(worker, "operate", plain(operate, {receive: _long_receive})),
    ):
        (ps if is_ps else worker).main()


if __name__ == "__main__":
    main()
