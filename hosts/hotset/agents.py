"""What agents are made of where the switch has a hot set."""

from __future__ import annotations

from collections.abc import Sequence

from foundation.designs.interface import Agents
from hosts.hotset.ps.core import ParameterServer
from hosts.hotset.ps.state import Server, make_server
from hosts.hotset.ps.store import Store
from hosts.hotset.worker.client import Client
from hosts.keys import KeySpace
from hosts.ps.share import make_share


def _server(ps: int, n_ps: int, space: KeySpace, jobs: Sequence[int], journal_bytes: int = 0) -> Server:
    return make_server(ps, jobs, make_share(space, ps, n_ps), journal_bytes)


AGENTS = Agents(Client, _server, Store, ParameterServer, "foundation.protocol.scapy_layer")
