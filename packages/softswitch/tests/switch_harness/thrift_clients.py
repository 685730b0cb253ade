"""A switch at a Thrift port, and clients made with thriftpy2 from the declarations of its services."""

from __future__ import annotations

import asyncio
import inspect
import io
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from thriftpy2.parser import parse_fp
from thriftpy2.protocol import TBinaryProtocol, TMultiplexedProtocol
from thriftpy2.thrift import TClient
from thriftpy2.transport import TBufferedTransport, TSocket

from softswitch.p4runtime.access import AccessPolicy, make_policy
from softswitch.p4runtime.service import P4RuntimeServer
from softswitch.runtime.device import SwitchRuntime
from softswitch.runtime.interface import Runtime
from softswitch.runtime.service import runtime_handlers
from softswitch.settings import ThriftSettings
from softswitch.thrift.port import ThriftPort
from softswitch.thrift.replication import SimplePreLagService, SimpleSwitchService
from softswitch.thrift.standard import StandardService
from switch_harness.p4runtime import DEVICE
from switch_harness.stepped_switch import InterpretedWithNotices
from switch_harness.switch_runtime import DevicePorts
from switch_harness.waiting import PATIENCE_S

SERVICES: dict[str, type] = {
    "standard": StandardService,
    "simple_pre_lag": SimplePreLagService,
    "simple_switch": SimpleSwitchService,
}


class ThriftSwitch:
    """A switch whose program is interpreted."""

    def __init__(
        self, server: P4RuntimeServer[Any], ports: DevicePorts, runtime: Runtime, grpc_address: str
    ) -> None:
        self.server, self.ports, self.runtime = server, ports, runtime
        self.grpc_address = grpc_address
        self.port: int

    def connected(self) -> AbstractContextManager[dict[str, TClient]]:
        return connect_thrift(self.port)


@contextmanager
def connect_thrift(port: int) -> Iterator[dict[str, TClient]]:
    """Connect to a Thrift port of this machine; yield a client of each service, by its name."""
    transport = TBufferedTransport(TSocket("127.0.0.1", port, socket_timeout=1000 * PATIENCE_S))
    transport.open()
    protocol = TBinaryProtocol(transport)
    try:
        yield {
            name: TClient(getattr(declarations(), name), TMultiplexedProtocol(protocol, name))
            for name in SERVICES
        }
    finally:
        transport.close()


@contextmanager
def serving_thrift(
    program: Path,
    access: AccessPolicy | None = None,
    address: str = "127.0.0.1:0",
    notifications: str | None = None,
    opens_notifications: bool = False,
) -> Iterator[ThriftSwitch]:
    """Serve a switch on an event loop that has its own thread, with gRPC at another port."""
    ports, loop = DevicePorts(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def on_loop(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE_S)

    stopped: list[P4RuntimeServer[Any] | ThriftPort] = []

    async def start() -> ThriftSwitch:
        server = P4RuntimeServer[Any](DEVICE, ports, InterpretedWithNotices, access)
        stopped.append(server)
        server.pipelines.load_bare(program.with_suffix(".json").read_bytes())
        runtime: asyncio.Future[Runtime] = loop.create_future()
        runtime.set_result(SwitchRuntime[Any](server.pipelines, ports, DEVICE))
        server.extra_handlers.append(runtime_handlers(runtime))
        grpc_address = f"127.0.0.1:{await server.start('127.0.0.1:0')}"
        settings = ThriftSettings(address, make_policy() if access is None else access, notifications)
        switch = ThriftSwitch(server, ports, runtime.result(), grpc_address)
        thrift = ThriftPort(settings, server, runtime, grpc_address)
        switch.port = await thrift.start()
        stopped.insert(0, thrift)
        if notifications is not None or opens_notifications:
            thrift.open_notifications(DEVICE)
        return switch

    async def stop() -> None:
        for server in stopped:
            await server.stop()

    try:
        yield on_loop(start())
    finally:
        on_loop(stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        ports.close()


@cache
def declarations() -> Any:  # a module that thriftpy2 makes
    return parse_fp(io.StringIO(describe_services()), "softswitch_thrift")


def describe_services() -> str:
    """Return the services in Thrift's interface language."""
    structs: dict[str, str] = {}
    services = []
    for name, service in SERVICES.items():
        methods = [
            _describe_method(method_name, function, structs)
            for method_name, function in inspect.getmembers(service, inspect.isfunction)
            if not method_name.startswith("_")
        ]
        services.append(f"service {name} {{\n" + "\n".join(methods) + "\n}")
    return "\n".join(["exception Refused { 1: i32 code }", *structs.values(), *services])


def _describe_method(name: str, function: Callable[..., Any], structs: dict[str, str]) -> str:
    hints = get_type_hints(function, include_extras=True)
    returned = hints.pop("return")
    result = "void" if returned is NoneType else _type_name(returned, structs)
    throws = " throws (1: Refused ouch)" if hasattr(function, "error_codes") else ""
    return f"  {result} {name}({_describe_fields(hints, structs)}){throws}"


def _describe_fields(hints: dict[str, Any], structs: dict[str, str]) -> str:
    return ", ".join(
        f"{number}: {_type_name(hint, structs)} {name}"
        for number, (name, hint) in enumerate(hints.items(), 1)
    )


def _type_name(hint: Any, structs: dict[str, str]) -> str:
    if NoneType in get_args(hint):
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
    if get_origin(hint) is Annotated:
        name: str = hint.__metadata__[0].wire_type.name.lower()
        return name
    if get_origin(hint) in (list, dict):
        kind = {list: "list", dict: "map"}[get_origin(hint)]
        return f"{kind}<{', '.join(_type_name(part, structs) for part in get_args(hint))}>"
    simple = {bool: "bool", float: "double", bytes: "binary", str: "string"}
    if hint in simple:
        return simple[hint]
    if hint.__name__ not in structs:
        fields = _describe_fields(get_type_hints(hint, include_extras=True), structs)
        structs[hint.__name__] = f"struct {hint.__name__} {{ {fields} }}"
    return str(hint.__name__)
