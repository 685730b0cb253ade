"""Without TLS, processes of dask listen at the loopback only, whatever they say of their addresses."""

from __future__ import annotations

import asyncio
import socket

import pytest
from distributed import Scheduler, Worker

from experiment.run_config import Config
from hotline_machines.cluster import connected
from hotline_machines.errors import MachinesError
from hotline_machines.security import check_listeners, listening_addresses
from switch_harness.wording import mentions, says


@pytest.mark.parametrize(
    ("family", "host", "is_exposed"),
    [
        (socket.AF_INET, "127.0.0.1", False),
        (socket.AF_INET, "127.3.2.1", False),
        (socket.AF_INET, "0.0.0.0", True),
        (socket.AF_INET6, "::1", False),
        (socket.AF_INET6, "::ffff:127.0.0.1", False),
        (socket.AF_INET6, "::", True),
    ],
)
def test_a_socket_is_exposed_unless_the_socket_listens_at_the_loopback(
    family: socket.AddressFamily, host: str, is_exposed: bool
) -> None:
    with socket.socket(family) as sock:
        sock.bind((host, 0))
        sock.listen()
        port = sock.getsockname()[1]
        address = f"tcp://127.0.0.1:{port}"
        assert listening_addresses(port) == [host.removeprefix("::ffff:")]
        if not is_exposed:
            check_listeners({address: "dask scheduler"})
            return
        with pytest.raises(MachinesError) as refused:
            check_listeners({address: "dask scheduler"})
        assert says(refused.value, address, host, "dask scheduler --host 127.0.0.1", "TLS")


def test_an_address_without_a_listening_process_on_the_machine_is_refused() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))  # and does not listen
        with pytest.raises(MachinesError):
            check_listeners({f"tcp://127.0.0.1:{sock.getsockname()[1]}": "dask scheduler"})


@pytest.mark.filterwarnings("ignore:Couldn't detect a suitable IP address")  # on a machine without a network
@pytest.mark.parametrize(
    ("scheduler_host", "worker_host", "exposed"),
    [
        ("127.0.0.1", "127.0.0.1", None),
        ("127.0.0.1", None, "dask worker"),
        ("0.0.0.0", "127.0.0.1", "dask scheduler"),
    ],
    ids=["neither", "worker", "scheduler"],
)
def test_a_loopback_cluster_is_refused_if_a_process_listens_beyond_the_loopback(
    scheduler_host: str, worker_host: str | None, exposed: str | None
) -> None:
    async def connect() -> None:
        async with Scheduler(host=scheduler_host, port=0, dashboard=False) as scheduler:
            address = f"tcp://127.0.0.1:{scheduler.port}"
            async with (
                Worker(address, nthreads=1, host=worker_host, dashboard=False),
                connected(Config(machines=address)),
            ):
                pass

    if exposed is None:
        asyncio.run(connect())
    else:
        with pytest.raises(MachinesError, match=mentions(exposed, f"{exposed} --host 127.0.0.1")):
            asyncio.run(connect())
