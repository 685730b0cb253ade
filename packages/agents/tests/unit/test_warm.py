"""Set-up compiles all functions that agents run."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foundation.checksums import crc32_of
from foundation.compiled import Loop, pinned
from foundation.protocol import control
from foundation.protocol.codec import Caller
from foundation.protocol.control import Command, Control
from hosts import ledger
from hosts.keys import KeySpace
from hosts.ledger import Ledger
from hosts.sockets import open_udp
from hotline_agents.hotset.ps.parameter_server import ParameterServer
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.ps import share
from hotline_agents.ps.compiled_loop import make_sources, serve
from hotline_agents.ps.rpcs import CONNECTION_RECORDS
from hotline_agents.ps.server_sockets import ServerSockets
from hotline_agents.ps.service_time import make_service
from hotline_agents.udp import make_udp
from hotline_agents.warm import warm_ps, warm_worker
from hotline_agents.worker.compiled_loop import make_wire, operate
from hotline_agents.worker.logs import RpcWriter
from hotline_agents.worker.ops import COMPILED

CALLED = [each for each in COMPILED if isinstance(each, Loop)]
WORKERS: list[Any] = [*CALLED, operate, ledger._open_log, ledger._close_log]


def in_own_process(work: Callable[[Path], None], folder: Path) -> None:
    """Run in a fresh process, as other tests compile other designs."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        process.submit(work, folder).result()


def test_a_worker_compiles_nothing_beyond_set_up(tmp_path: Path) -> None:
    """Mapped keys, a ledger in a file, two PSs and an array for its rows need no other machine code."""
    in_own_process(run_a_worker, tmp_path)


def run_a_worker(folder: Path) -> None:
    warm_worker()
    signatures = [entry.signatures for entry in WORKERS]
    assert [len(each) for each in signatures] == [1] * len(WORKERS)

    space = map_keys(folder, np.arange(100, dtype=np.uint64) * np.uint64(2**57))
    client = HotsetClient(Caller(3, 2, 1), 2, space, time.monotonic_ns, window=2, max_keys=50)
    book = Ledger(3, 1, space, 50, folder / "ledger")
    writer = RpcWriter(lambda rows, origin: None)
    writer.begin(client)
    writer.close()
    positions, deltas = np.arange(7), np.ones(7, np.uint32)
    command, other = os.pipe()
    with open_udp(("127.0.0.1", 0)) as sock:
        wire = make_wire(sock.fileno(), [sock.getsockname()] * 2, command, command)
        client.hint(space.keys(positions))
        client.push(3, positions, deltas, book.open(positions, deltas))
        book.close()
        operate(client.reference, pinned(make_udp()), pinned(wire), time.monotonic_ns())
        client.receive(b"", 0, time.monotonic_ns())
        client.wake(client.deadline() or 0)
    for end in (command, other):
        os.close(end)
    assert [entry.signatures for entry in WORKERS] == signatures


def map_keys(folder: Path, keys: NDArray[np.uint64]) -> KeySpace:
    file = folder / "keys.npy"
    np.save(file, keys)
    return KeySpace.load(file, crc32_of(file))


PS: list[Any] = [*CALLED, serve, share.locate_all, share.fill_ranks, share.count_share, share.insert_share]


def test_a_server_compiles_nothing_beyond_set_up(tmp_path: Path) -> None:
    """Mapped keys, several jobs, a configured service time and more room need no other machine code."""
    in_own_process(run_a_ps, tmp_path)


def run_a_ps(folder: Path) -> None:
    warm_worker()
    warm_ps()
    signatures = [entry.signatures for entry in PS]
    assert [len(each) for each in signatures] == [1] * len(PS)

    mapped = map_keys(folder, np.arange(100, dtype=np.uint64) * np.uint64(2**50 + 1))
    for space in (KeySpace(50), mapped):
        core: ParameterServer[Any] = ParameterServer(1, 2, space, {3: 1, 4: 1}, lambda: 0)
        service, workers = ("127.0.0.1", 1), {("127.0.0.1", 2)}
        with closing(ServerSockets(core, "127.86.2.7", service, workers, make_service(5, 5, 8))):
            keys = core.stores[3].contents().keys[:2]
            core.command(control.build(Control(Command.SEED, 3, 1, 1, 1, keys)), "controller")
            (push,) = core.transmit()
            core.receive_rpc_answer(bytes(push), 5)
            core.wake(core.deadline() or 0)
            core.server.make_room(CONNECTION_RECORDS)
            others = pinned(make_service()), pinned(make_udp()), pinned(make_sources(-1))
            serve(core.server.reference, *others, 0)
    assert [entry.signatures for entry in PS] == signatures
