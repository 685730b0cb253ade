"""Join a session: find the worker's rank, and create its engine with the session's settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from foundation.designs.registry import design
from foundation.protocol.codec import Caller
from hosts.keys import KeySpace
from hosts.sockets import common_port, open_udp
from hotline_scripts.kv.connection import NotConnected
from hotline_scripts.kv.engine import Engine, InvalidCall, max_chunk
from topologies.script_command import RANK_VARIABLE


def rank_of_run() -> int | None:
    rank = os.environ.get(RANK_VARIABLE)
    if rank is None:
        return None
    if not rank.isdecimal():
        raise InvalidCall(
            f"{RANK_VARIABLE}={rank}: expected an integer of at least 0; only a run sets this variable"
        )
    return int(rank)


def make_engine(
    terms: Mapping[str, Any],
    space: KeySpace,
    on_steps: Callable[[int], None],
    on_silence: Callable[[Sequence[int]], None],
) -> Engine:
    host, port = terms["address"]
    servers = [(address, number) for address, number in terms["peers"]]
    source_port = common_port(servers) if design(terms["design"]).has_services else None
    try:
        udp_socket = open_udp((host, port), source_port=source_port)
    except OSError as error:
        raise NotConnected(
            f"worker {terms['rank']} cannot bind UDP port {port} of {host} ({error.strerror}): "
            "end the process that uses it, then start all workers again"
        ) from None
    try:
        # Ranks count from 0, numbers of workers from 1.
        caller = Caller(terms["job"], terms["rank"] + 1, terms["epoch"])
        recorder = None
        if terms["parts"] is not None:
            from hotline_scripts.kv.run_recorder import RunRecorder  # imported late, as only runs need it

            recorder = RunRecorder(terms, space, max_chunk(space), on_steps)
        return Engine(
            caller, terms["design"], space, terms["window"], servers, udp_socket, recorder, on_silence
        )
    except BaseException:
        udp_socket.close()
        raise
