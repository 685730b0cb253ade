"""A switch from its start to its end: it listens at once, and forwards when its code is there.

The first start compiles for half a minute or more, in a thread, where clients wait ten seconds for the port.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol, TypeVar

from softswitch.messages import pluralize
from softswitch.p4runtime import P4RuntimeServer
from softswitch.runtime.interface import Runtime
from softswitch.runtime.service import runtime_handlers
from softswitch.settings import Settings

GRPC_LOGGER = "grpc._cython.cygrpc"
_RPCS_END_S = 1.0
# Table entries are many objects that live long: look for cycles among them seldom.
GC_THRESHOLDS = (100_000, 50, 100)
T = TypeVar("T")


class Closable(Protocol):
    """What `serve` knows of `softswitch.machine.Machine`."""

    runtime: Runtime

    def report(self) -> None:
        """Print the counters."""
        ...

    def close(self) -> None:
        """End it."""
        ...


def run(settings: Settings) -> None:
    """Run a switch until SIGINT or SIGTERM; raises SwitchError where it cannot be had."""
    logging.getLogger(GRPC_LOGGER).addFilter(is_no_cancellation)
    server: P4RuntimeServer[Any] = P4RuntimeServer(settings.device_id)

    def make() -> Closable:
        made: Closable = import_module("softswitch.machine").Machine(settings, server)
        return made

    if not asyncio.run(serve(settings, server, make)):
        sys.stderr.flush()
        os._exit(0)  # a compilation would have to be waited for


async def serve(settings: Settings, server: P4RuntimeServer[Any], make: Callable[[], Closable]) -> bool:
    """Serve until a signal comes; whether the machine was there by then."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGUSR1, lambda: None)
    first, *more = settings.addresses
    runtime: asyncio.Future[Runtime] = loop.create_future()
    server.beside.append(runtime_handlers(runtime, server.changed))
    port = await server.start(first, settings.credentials, *more)
    try:
        making, stopped = in_thread(make), asyncio.ensure_future(stop.wait())
        await asyncio.wait((making, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not making.done():
            return False
        with contextlib.closing(making.result()) as machine:
            server.begin()
            runtime.set_result(machine.runtime)
            loop.add_signal_handler(signal.SIGUSR1, machine.report)
            gc.freeze()
            gc.set_threshold(*GC_THRESHOLDS)
            ready = (
                f"{pluralize(len(settings.ports), 'port')}, P4Runtime on {first.rpartition(':')[0]}:{port}"
            )
            print(f"softswitch: ready: {ready}", file=sys.stderr, flush=True)
            await stopped
            await _end(server)
    finally:
        await server.stop()
    return True


def in_thread(call: Callable[[], T]) -> asyncio.Future[T]:
    """The result of a call in a thread, for which the process does not wait at its end."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def tell(settle: Callable[[Any], None], result: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result)

    def work() -> None:
        try:
            tell(future.set_result, call())
        except BaseException as error:
            tell(future.set_exception, error)

    threading.Thread(target=work, name="start", daemon=True).start()
    return future


async def _end(server: P4RuntimeServer[Any]) -> None:
    await server.stop()
    # gRPC's own: cancelled with the loop, each that a client has just left would print a traceback.
    if rest := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(rest, timeout=_RPCS_END_S)


def is_no_cancellation(record: logging.LogRecord) -> bool:
    """Whether to log a record: to gRPC it is worth one when a call is cancelled because the switch ends."""
    cancelled = record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError)
    return not cancelled and "due to server stop" not in record.getMessage()
