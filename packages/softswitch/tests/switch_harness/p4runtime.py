"""Programs under P4Runtime, without ports; the program is `control.p4` where no other is named."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias

import finsy as fy
import grpc
from finsy.proto import p4i, p4r, p4r_grpc

from softswitch.interpreter import InterpretedPipeline
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.messages import adopt
from softswitch.p4runtime.service import P4RuntimeServer
from softswitch.p4runtime.status import Refusal
from softswitch.pipeline import Pipeline
from switch_harness import PROGRAMS
from switch_harness.foreign import pipeline_config, read_p4info
from switch_harness.waiting import PATIENCE_S

CONTROL = PROGRAMS / "control"
ENTITIES = PROGRAMS / "entities"


P4INFO = read_p4info(CONTROL)
SCHEMA = fy.P4Schema(P4INFO)
P = ParamSpec("P")
Control: TypeAlias = ControlledPipeline[Any]
DEVICE = 7
SMALL_WINDOW = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1 << 16)]
"""Options of a channel that takes few messages before they are read."""
INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE
INVALID = "INVALID_ARGUMENT"
EVERYTHING = [
    p4r.Entity(table_entry=p4r.TableEntry()),
    p4r.Entity(table_entry=p4r.TableEntry(is_default_action=True)),
    p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry()),
    p4r.Entity(counter_entry=p4r.CounterEntry()),
    p4r.Entity(register_entry=p4r.RegisterEntry()),
]


def config(cookie: int = 0, program: Path = CONTROL) -> p4r.ForwardingPipelineConfig:
    answer = pipeline_config(program)
    if cookie:
        answer.cookie.cookie = cookie
    return answer


class Clock:
    """A clock in µs since start that only the test moves: it advances by `step` at each reading."""

    def __init__(self) -> None:
        self.now = self.step = 0

    def __call__(self) -> int:
        self.now += self.step
        return self.now


def controlled(
    program: Path = CONTROL, make: Any = InterpretedPipeline, clock: Clock | None = None
) -> Control:
    return controlled_by(config(program=program), make, clock)


def controlled_by(
    config: p4r.ForwardingPipelineConfig, make: Any = InterpretedPipeline, clock: Clock | None = None
) -> Control:
    return ControlledPipeline(adopt(config), make, clock or Clock())


def identity(name: str) -> int:
    return identity_in(P4INFO, name)


def identity_in(p4info: p4i.P4Info, name: str) -> int:
    """The ID in a P4Info of what has this alias."""
    groups: list[Any] = [
        value for field, value in p4info.ListFields() if field.name not in ("pkg_info", "type_info")
    ]
    return next(int(x.preamble.id) for group in groups for x in group if x.preamble.alias == name)


def update(
    entity: fy.P4TableEntry
    | fy.P4DirectCounterEntry
    | fy.P4CounterEntry
    | fy.P4RegisterEntry
    | fy.P4DigestEntry,
    kind: int = INSERT,
    schema: fy.P4Schema = SCHEMA,
) -> p4r.Update:
    return p4r.Update(type=kind, entity=entity.encode(schema))  # type: ignore[arg-type]  # an enum's value


def forward(address: int, port: int = 1, **more: Any) -> fy.P4TableEntry:
    return fy.P4TableEntry(
        "forward", match=fy.Match(dst_addr=address), action=fy.Action("forward_to", port=port), **more
    )


def write(
    control: Control,
    *updates: p4r.Update,
    atomicity: p4r.WriteRequest.Atomicity.ValueType = p4r.WriteRequest.CONTINUE_ON_ERROR,
) -> list[Refusal | None]:
    return control.write(adopt(p4r.WriteRequest(updates=updates, atomicity=atomicity)))


def read(control: Control, *entities: p4r.Entity) -> list[p4r.Entity]:
    """All that the queries select; the first refusal is raised."""
    responses, results = start_read(control, *entities)
    found = [entity for response in responses for entity in response.entities]
    for result in results:
        if result is not None:
            raise result
    return found


def refused(control: Control, change: p4r.Update, code: str, message: str) -> None:
    """Assert that an update is refused with a code and a text, and that nothing has changed."""
    before = read(control, *EVERYTHING)
    (result,) = write(control, change)
    assert result is not None
    assert (result.code.name, str(result)) == (code, message)
    assert read(control, *EVERYTHING) == before


def start_read(
    control: Control, *entities: p4r.Entity
) -> tuple[Iterator[p4r.ReadResponse], list[Refusal | None]]:
    """What queries will select, in finsy's messages, and how each was taken."""
    responses, results = control.read(adopt(p4r.ReadRequest(entities=entities)))
    return (p4r.ReadResponse.FromString(each.SerializeToString()) for each in responses), results


class FakePorts:
    """Ports that forward nothing: the test plays the CPU port at `switch_end`, and the packets otherwise."""

    def __init__(self) -> None:
        self.cpu_socket, self.switch_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notice_socket, self.notice_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.switch_end.settimeout(PATIENCE_S)
        self.started: list[Pipeline] = []
        self.now = Clock()

    def start(self, pipeline: Pipeline) -> None:
        self.started.append(pipeline)

    def stop(self) -> None:
        pass

    def close(self) -> None:
        for end in (self.cpu_socket, self.switch_end, self.notice_socket, self.notice_end):
            end.close()


class Controller:
    """A client of a server, by bare messages; `bid` first for what only a primary may do."""

    def __init__(self, stub: Any) -> None:
        self.stub = stub
        self.stream = stub.StreamChannel()
        self.election_id = 0
        self.role = ""

    async def bid(self, election_id: int, device_id: int = DEVICE, role: str = "") -> int:
        """Ask to be primary, and return the status code of the answer."""
        self.election_id, self.role = election_id, role
        request = p4r.StreamMessageRequest()
        if role:
            request.arbitration.role.name = role
        request.arbitration.device_id = device_id
        request.arbitration.election_id.low = election_id
        await self.stream.write(request)
        return (await self.receive()).arbitration.status.code

    async def receive(self) -> p4r.StreamMessageResponse:
        response: Any = await self.stream.read()
        assert isinstance(response, p4r.StreamMessageResponse)
        return response

    async def set_config(self, action: str, config: p4r.ForwardingPipelineConfig | None = None) -> None:
        request = p4r.SetForwardingPipelineConfigRequest(device_id=DEVICE, role=self.role, config=config)
        request.action = p4r.SetForwardingPipelineConfigRequest.Action.Value(action)
        request.election_id.low = self.election_id
        await self.stub.SetForwardingPipelineConfig(request)

    async def write(self, *updates: p4r.Update) -> None:
        request = p4r.WriteRequest(device_id=DEVICE, role=self.role, updates=updates)
        request.election_id.low = self.election_id
        await self.stub.Write(request)

    async def entries(self) -> int:
        query = p4r.Entity(table_entry=p4r.TableEntry())
        answer = self.stub.Read(p4r.ReadRequest(device_id=DEVICE, entities=[query]))
        return sum([len(response.entities) async for response in answer])


class Rig:
    def __init__(
        self, server: P4RuntimeServer[Any], ports: FakePorts, address: str, channel: grpc.aio.Channel
    ) -> None:
        self.server = server
        self.ports = ports
        self.address = address
        self.stub = p4r_grpc.P4RuntimeStub(channel)

    def controller(self) -> Controller:
        return Controller(self.stub)

    async def primary(self, program: Path = CONTROL) -> Controller:
        controller = self.controller()
        assert await controller.bid(1) == 0
        await controller.set_config("VERIFY_AND_COMMIT", config(program=program))
        return controller


@asynccontextmanager
async def rig(
    make: Any = InterpretedPipeline, refuses_unset_config: bool = False, ports: Any = None
) -> AsyncIterator[Rig]:
    """A server with ports that forward nothing, or with others; they are closed after it."""
    ports = FakePorts() if ports is None else ports
    server = P4RuntimeServer[Any](DEVICE, ports, make, refuses_unset_config=refuses_unset_config)
    try:
        address = f"127.0.0.1:{await server.start('127.0.0.1:0')}"
        async with grpc.aio.insecure_channel(address) as channel:
            yield Rig(server, ports, address, channel)
    finally:
        await server.stop()
        ports.close()


def asynchronous(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), PATIENCE_S))

    return run
