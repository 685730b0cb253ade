"""A switch's lifecycle: it listens at once (clients wait only 10 s), and forwards once it has compiled."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import resource
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, TypeVar

from nativekit.installed import require_numba
from softswitch.ending import end_now, handled_signals
from softswitch.errors import SwitchError
from softswitch.messages import pluralize
from softswitch.p4runtime.service import P4RuntimeServer
from softswitch.runtime.interface import Runtime
from softswitch.runtime.service import runtime_handlers
from softswitch.settings import Settings
from softswitch.thrift.port import ThriftPort

if TYPE_CHECKING:
    from softswitch.datapath import LivePipeline

GRPC_LOGGER = "grpc._cython.cygrpc"
_RPC_END_TIMEOUT_S = 1.0
_OPEN_FILES, _OPEN_FILES_PER_PORT = 64, 4
"""Files that a switch may need to open: sockets, BPF objects and a few controllers, and those of a port."""
T = TypeVar("T")


class RunningMachine(Protocol):  # `softswitch.machine.Machine`, which is imported late
    runtime: Runtime

    def watch_interfaces(self, loop: asyncio.AbstractEventLoop) -> None: ...

    def report(self) -> None: ...

    def close(self) -> None: ...


def run(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM.

    A signal during the start ends this process at once. What it compiles is cached unit by unit: BMv2 JSON of
    P4 source, a loaded program, machine code, object code for BPF, and each compiled function of the switch
    itself. Units that are complete are kept, and the one under way is lost: of a large program some seconds
    of CPU time. The process that `warm` starts goes on until its part is cached.

    A signal during a SetForwardingPipelineConfig that compiles ends the process as well, after a second;
    what of the switch is outside of the process is undone before.
    """
    require_numba("softswitch")  # before it listens: without them it could not load any program
    _raise_limit_of_open_files(_OPEN_FILES + _OPEN_FILES_PER_PORT * len(settings.ports))
    logging.getLogger(GRPC_LOGGER).addFilter(is_not_cancellation)
    server: P4RuntimeServer[LivePipeline] = P4RuntimeServer(
        settings.device_id, access=settings.access, refuses_unset_config=settings.refuses_unset_config
    )

    def make_machine() -> RunningMachine:
        machine: RunningMachine = import_module("softswitch.machine").Machine(settings, server)
        return machine

    if not asyncio.run(serve(settings, server, make_machine)):
        end_now()


def _raise_limit_of_open_files(count: int) -> None:
    """Raise the process's limit of open files to `count`; raise SwitchError if it cannot have so many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or count <= soft:
        return
    if hard != resource.RLIM_INFINITY and count > hard:
        raise SwitchError(f"expected a limit of open files (ulimit -n) of at least {count}, got {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


async def serve(
    settings: Settings, server: P4RuntimeServer[LivePipeline], make_machine: Callable[[], RunningMachine]
) -> bool:
    """Serve until a signal; return whether the machine was made before the signal."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    handlers: dict[int, Callable[[], None]] = {
        signal.SIGINT: stop.set,
        signal.SIGTERM: stop.set,
        signal.SIGUSR1: lambda: None,  # it would end the process before `report` exists
    }
    with handled_signals(handlers, loop.call_soon_threadsafe):
        return await _serve_until(stop, settings, server, make_machine, handlers)


async def _serve_until(
    stop: asyncio.Event,
    settings: Settings,
    server: P4RuntimeServer[LivePipeline],
    make_machine: Callable[[], RunningMachine],
    handlers: dict[int, Callable[[], None]],
) -> bool:
    loop = asyncio.get_running_loop()
    first_address, *more_addresses = settings.addresses
    runtime: asyncio.Future[Runtime] = loop.create_future()
    server.extra_handlers.append(runtime_handlers(runtime, server.reschedule_notifications))
    port = await server.start(first_address, settings.credentials, *more_addresses)
    host = first_address.rpartition(":")[0]
    async with contextlib.AsyncExitStack() as servers:
        servers.push_async_callback(server.stop)
        services = f"P4Runtime on {host}:{port}"
        thrift: ThriftPort | None = None
        if settings.thrift is not None:
            thrift = ThriftPort(settings.thrift, server, runtime, f"{host}:{port}")
            await thrift.start()
            servers.push_async_callback(thrift.stop)
            services += f", Thrift and P4Runtime on {settings.thrift.address}"
        machine_future, stop_task = call_in_thread(make_machine), asyncio.ensure_future(stop.wait())
        await asyncio.wait((machine_future, stop_task), return_when=asyncio.FIRST_COMPLETED)
        if not machine_future.done():
            return False
        with contextlib.closing(machine_future.result()) as machine:
            server.begin()  # serving calls, which have waited since `start`
            if thrift is not None:
                thrift.open_notifications(settings.device_id)
            runtime.set_result(machine.runtime)
            machine.watch_interfaces(loop)
            handlers[signal.SIGUSR1] = machine.report
            gc.freeze()  # objects of the start stay: never search them
            summary = f"{pluralize(len(settings.ports), 'port')}, {services}"
            print(f"softswitch: ready: {summary}", file=sys.stderr, flush=True)
            await stop_task
            await _stop_servers(servers)
    return True


def call_in_thread(call: Callable[[], T]) -> asyncio.Future[T]:
    """Call a function in a daemon thread, which does not delay the process's exit; return its future."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def set_in_loop(set_future: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and the result is not awaited
            loop.call_soon_threadsafe(set_future)

    def run_call() -> None:
        try:
            set_in_loop(partial(future.set_result, call()))
        except BaseException as error:
            set_in_loop(partial(future.set_exception, error))

    threading.Thread(target=run_call, name="start", daemon=True).start()
    return future


async def _stop_servers(servers: contextlib.AsyncExitStack) -> None:
    await servers.aclose()
    # Wait for gRPC's tasks: a task of a client that has just disconnected prints a traceback if cancelled.
    if remaining_tasks := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(remaining_tasks, timeout=_RPC_END_TIMEOUT_S)


def is_not_cancellation(record: logging.LogRecord) -> bool:
    is_cancelled = record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError)
    return not is_cancelled and "due to server stop" not in record.getMessage()
