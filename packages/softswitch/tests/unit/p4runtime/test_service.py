"""The gRPC service: checks and their order, pipeline configs, sessions and packets."""

import gc
import os
import socket
import threading
from collections.abc import Callable

import grpc
import pytest
from finsy import P4ClientError
from finsy.proto import p4r, rpc_status
from google.protobuf import any_pb2

from softswitch.compiled import CompiledPipeline
from softswitch.errors import SwitchError
from softswitch.p4runtime.pipelines import NO_CONFIG
from softswitch.p4runtime.service import P4RuntimeServer
from switch_harness.p4runtime import (
    DEVICE,
    INVALID,
    MODIFY,
    FakePorts,
    asynchronous,
    config,
    forward,
    rig,
    update,
)
from switch_harness.waiting import wait_for
from switch_harness.wording import mentions, says_in_one_line

Get = p4r.GetForwardingPipelineConfigRequest
OK, ALREADY_EXISTS = 0, 6
HEADER = (5 << 7).to_bytes(2, "big")  # port 5 in 9 bits, then 7 bits of padding


def failure(error: pytest.ExceptionInfo[grpc.aio.AioRpcError]) -> tuple[str, str]:
    return error.value.code().name, error.value.details() or ""


# ---- writes and reads


@asynchronous
async def test_each_update_of_a_failed_batch_has_its_error() -> None:
    async with rig() as switch:
        controller = await switch.primary()
        await controller.write(update(forward(1)))
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await controller.write(update(forward(2)), update(forward(1)), update(forward(3), MODIFY))
        already_there = "table ControlIngress.forward: entry dst_addr=0x1 is already there"
        assert failure(error) == ("UNKNOWN", f"2 of 3 failed; update 2: ALREADY_EXISTS: {already_there}")
        trailer = dict(error.value.trailing_metadata() or ())["grpc-status-details-bin"]
        status = rpc_status.Status.FromString(trailer)
        assert (status.code, status.message) == (2, error.value.details())
        errors = [p4r.Error() for _ in status.details]
        assert all(detail.Unpack(message) for detail, message in zip(status.details, errors, strict=True))
        assert [e.canonical_code for e in errors] == [0, 6, 5]
        assert [e.message for e in errors][:2] == ["", already_there]


@asynchronous
async def test_a_read_answers_its_good_queries_and_then_fails() -> None:
    async with rig() as switch:
        await switch.primary()
        good, bad = p4r.Entity(table_entry=p4r.TableEntry()), p4r.Entity(extern_entry=p4r.ExternEntry())
        answer = switch.stub.Read(p4r.ReadRequest(device_id=DEVICE, entities=[bad, good]))
        responses = []
        with pytest.raises(grpc.aio.AioRpcError) as error:
            async for response in answer:
                responses.append(response)
        assert len(responses[0].entities) == 2
        text = "1 of 2 failed; entity 1: UNIMPLEMENTED: extern_entry is not supported by softswitch"
        assert failure(error) == ("UNKNOWN", text)


@asynchronous
async def test_checks_come_in_the_order_of_the_specification() -> None:
    async with rig() as switch:
        request = p4r.WriteRequest(device_id=3, role="x")

        async def refused() -> tuple[str, str]:
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await switch.stub.Write(request)
            return failure(error)

        assert await refused() == ("NOT_FOUND", "device 3 is not here, this is device 7")
        request.device_id = DEVICE
        assert await refused() == ("NOT_FOUND", "role 'x' has no controller")
        request.role = ""
        text = "not primary: no election ID is given, there is no primary"
        assert await refused() == ("PERMISSION_DENIED", text)
        controller = switch.controller()
        assert await controller.bid(1) == OK
        request.election_id.low = 1
        assert await refused() == ("FAILED_PRECONDITION", NO_CONFIG)


@asynchronous
async def test_bytes_that_are_no_message_are_an_invalid_argument(caplog: pytest.LogCaptureFixture) -> None:
    read = "/p4.v1.P4Runtime/Read"
    garbage = b"\xff\xff\xff\xff garbage"
    async with rig() as switch:
        controller = await switch.primary()
        async with grpc.aio.insecure_channel(switch.address) as channel:
            for rpc in (
                "Write",
                "SetForwardingPipelineConfig",
                "GetForwardingPipelineConfig",
                "Capabilities",
            ):
                with pytest.raises(grpc.aio.AioRpcError) as error:
                    await channel.unary_unary(f"/p4.v1.P4Runtime/{rpc}", bytes, bytes)(garbage)
                assert failure(error)[0] == INVALID, rpc
                assert failure(error)[1].startswith(f"cannot parse the {rpc} request"), rpc
            with pytest.raises(grpc.aio.AioRpcError) as error:
                _ = [each async for each in channel.unary_stream(read, bytes, bytes)(garbage)]
            assert failure(error)[0] == INVALID
            stream = channel.stream_stream("/p4.v1.P4Runtime/StreamChannel", bytes, bytes)()
            await stream.write(garbage)
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await stream.read()
            assert failure(error)[0] == INVALID
        await controller.write(update(forward(1)))
    # asyncio's records are about gRPC's poller, which outlives the event loops of earlier tests.
    assert [each.getMessage() for each in caplog.records if each.name != "asyncio"] == []


@asynchronous
async def test_capabilities_name_the_p4runtime_version() -> None:
    async with rig() as switch:
        for device in (0, DEVICE):
            answer = await switch.stub.Capabilities(p4r.CapabilitiesRequest(device_id=device))
            assert answer.p4runtime_api_version == "1.6.0"
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await switch.stub.Capabilities(p4r.CapabilitiesRequest(device_id=1))
        assert failure(error) == ("NOT_FOUND", "device 1 is not here, this is device 7")


# ---- pipeline configs


@asynchronous
async def test_committing_a_config_clears_the_state() -> None:
    async with rig() as switch:
        controller = await switch.primary()
        await controller.write(update(forward(1)))
        assert await controller.entries() == 3
        await controller.set_config("VERIFY", config())
        assert await controller.entries() == 3
        await controller.set_config("VERIFY_AND_COMMIT", config())
        assert await controller.entries() == 2
        assert len(switch.ports.started) == 2


@asynchronous
async def test_a_saved_config_is_written_to_and_runs_when_committed() -> None:
    async with rig() as switch:
        controller = await switch.primary()
        await controller.set_config("VERIFY_AND_SAVE", config())
        await controller.write(update(forward(2, port=4)), update(forward(3)))
        running, frame = switch.ports.started[-1], (2).to_bytes(6, "big") + bytes(58)
        assert (len(switch.ports.started), running.process(1, frame, 0, 0)) == (1, [])
        await controller.set_config("COMMIT")
        assert [out.port for out in switch.ports.started[-1].process(1, frame, 0, 0)] == [4]
        assert await controller.entries() == 4


@asynchronous
async def test_reconciling_with_the_same_pipeline_changes_only_the_cookie() -> None:
    async with rig() as switch:
        controller = switch.controller()
        await controller.bid(1)
        await controller.set_config("RECONCILE_AND_COMMIT", config())
        await controller.write(update(forward(1)))
        await controller.set_config("RECONCILE_AND_COMMIT", config(cookie=9))
        assert (await controller.entries(), len(switch.ports.started)) == (3, 1)
        answer = await switch.stub.GetForwardingPipelineConfig(Get(device_id=DEVICE))
        assert answer.config == config(cookie=9)


def changed(change: Callable[[p4r.ForwardingPipelineConfig], object]) -> p4r.ForwardingPipelineConfig:
    answer = config()
    change(answer)
    return answer


INCOMPLETE = "the pipeline config needs p4info and p4_device_config (BMv2 JSON)"


@pytest.mark.parametrize(
    ("action", "bad", "code", "message"),
    [
        ("VERIFY", None, INVALID, INCOMPLETE),
        ("VERIFY_AND_SAVE", None, INVALID, INCOMPLETE),
        ("VERIFY_AND_COMMIT", changed(lambda c: c.ClearField("p4_device_config")), INVALID, INCOMPLETE),
        ("RECONCILE_AND_COMMIT", None, INVALID, INCOMPLETE),
        (
            "VERIFY_AND_COMMIT",
            changed(lambda c: setattr(c, "p4_device_config", b"[]")),
            INVALID,
            "not a BMv2 program: `header_types` and `pipelines` expected at the top",
        ),
        (
            "VERIFY_AND_COMMIT",
            changed(lambda c: setattr(c.p4info.tables[0].preamble, "name", "other")),
            INVALID,
            "P4Info and program differ in table other: they come from different compilations",
        ),
        (
            "VERIFY",
            changed(lambda c: c.p4info.externs.add()),
            INVALID,
            "P4Info: externs are not supported by softswitch",
        ),
        ("COMMIT", config(), INVALID, "COMMIT takes no config, it commits the saved config"),
        ("COMMIT", None, "NOT_FOUND", "no config is saved: VERIFY_AND_SAVE one before COMMIT"),
        ("UNSPECIFIED", None, INVALID, "action 0 of SetForwardingPipelineConfig is not known"),
    ],
)
@asynchronous
async def test_a_bad_config_changes_nothing(
    action: str, bad: p4r.ForwardingPipelineConfig | None, code: str, message: str
) -> None:
    async with rig() as switch:
        controller = await switch.primary()
        await controller.write(update(forward(1)))
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await controller.set_config(action, bad)
        assert failure(error) == (code, message)
        assert (await controller.entries(), len(switch.ports.started)) == (3, 1)


@asynchronous
async def test_a_backup_sets_no_config() -> None:
    async with rig() as switch:
        await switch.primary()
        backup = switch.controller()
        assert await backup.bid(0) == ALREADY_EXISTS
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await backup.set_config("VERIFY", config())
        text = "not primary: election ID 0 is given, the primary has 1"
        assert failure(error) == ("PERMISSION_DENIED", text)


@asynchronous
async def test_bmv2s_controllers_cannot_read_a_config_before_the_first_config_is_set() -> None:
    async with rig(refuses_unset_config=True) as switch:
        request = Get(device_id=DEVICE)

        async def is_missing() -> bool:
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await switch.stub.GetForwardingPipelineConfig(request)
            return P4ClientError(error.value, "GetForwardingPipelineConfig").is_pipeline_missing

        assert await is_missing()
        controller = switch.controller()
        assert await controller.bid(1) == OK
        await controller.set_config("VERIFY", config())
        assert await is_missing()
        await controller.set_config("VERIFY_AND_SAVE", config())
        assert (await switch.stub.GetForwardingPipelineConfig(request)).config == config()


@asynchronous
async def test_the_config_is_returned_whole_or_in_parts() -> None:
    async with rig() as switch:

        async def get(kind: str) -> tuple[bool, bool, int]:
            request = Get(device_id=DEVICE, response_type=Get.ResponseType.Value(kind))
            answer = (await switch.stub.GetForwardingPipelineConfig(request)).config
            return answer.HasField("p4info"), bool(answer.p4_device_config), answer.cookie.cookie

        answer = await switch.stub.GetForwardingPipelineConfig(Get(device_id=DEVICE))
        assert not answer.HasField("config")
        controller = await switch.primary()
        await controller.set_config("VERIFY_AND_COMMIT", config(cookie=5))
        assert await get("ALL") == (True, True, 5)
        assert await get("COOKIE_ONLY") == (False, False, 5)
        assert await get("P4INFO_AND_COOKIE") == (True, False, 5)
        assert await get("DEVICE_CONFIG_AND_COOKIE") == (False, True, 5)


# ---- sessions and packets


@asynchronous
async def test_a_backup_takes_over_when_the_primary_closes_its_stream() -> None:
    async with rig() as switch:
        first, second = await switch.primary(), switch.controller()
        assert await second.bid(0) == ALREADY_EXISTS
        with pytest.raises(grpc.aio.AioRpcError):
            await second.write(update(forward(1)))
        first.stream.cancel()
        notice = (await second.receive()).arbitration
        assert (notice.status.code, notice.election_id.low) == (OK, 0)
        await second.write(update(forward(1)))


@asynchronous
async def test_a_wrong_bid_ends_the_stream() -> None:
    async with rig() as switch:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await switch.controller().bid(1, device_id=2)
        assert failure(error) == ("NOT_FOUND", "device 2 is not here, this is device 7")


def packet_out(payload: bytes, metadata: dict[int, bytes]) -> p4r.StreamMessageRequest:
    request = p4r.StreamMessageRequest()
    request.packet.payload = payload
    for identity, value in metadata.items():
        request.packet.metadata.add(metadata_id=identity, value=value)
    return request


TO_PORT_5 = {2: b"\0", 1: b"\5"}


@asynchronous
async def test_packets_go_between_the_primary_and_the_cpu_port() -> None:
    async with rig() as switch:
        primary, backup = await switch.primary(), switch.controller()
        await backup.bid(0)
        await primary.stream.write(packet_out(b"frame", TO_PORT_5))
        await backup.stream.write(packet_out(b"frame", TO_PORT_5))
        error = (await backup.receive()).error
        assert (error.canonical_code, error.message) == (7, "packet-out is for the primary controller only")
        assert switch.ports.switch_end.recv(100) == HEADER + b"frame"

        switch.ports.switch_end.send(b"?")  # too short for the header: dropped
        switch.ports.switch_end.send(HEADER + b"answer")
        packet_in = (await primary.receive()).packet
        assert packet_in.payload == b"answer"
        assert [(m.metadata_id, m.value) for m in packet_in.metadata] == [(1, b"\5"), (2, b"\0")]


METADATA = "packet_out metadata"


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({1: b"\2\0", 2: b"\0"}, f"{METADATA} egress_port: 0x0200 does not fit in bit<9>"),
        ({1: b"\1"}, f"{METADATA} _pad is missing; expected egress_port (ID 1), _pad (ID 2)"),
        (
            {1: b"\1", 2: b"\0", 7: b"\0"},
            f"{METADATA} with ID 7 does not exist; expected egress_port (ID 1), _pad (ID 2)",
        ),
    ],
)
@asynchronous
async def test_a_bad_packet_out_is_answered_on_the_stream(metadata: dict[int, bytes], message: str) -> None:
    async with rig() as switch:
        primary = await switch.primary()
        request = packet_out(b"frame", metadata)
        await primary.stream.write(request)
        error = (await primary.receive()).error
        assert (error.canonical_code, error.message) == (3, message)
        assert error.packet_out.packet_out == request.packet


@asynchronous
async def test_a_full_cpu_port_is_answered_on_the_stream() -> None:
    async with rig() as switch:
        primary = await switch.primary()
        with pytest.raises(BlockingIOError):
            while True:
                switch.ports.cpu_socket.send(bytes(60000), socket.MSG_DONTWAIT)
        await primary.stream.write(packet_out(bytes(60000), TO_PORT_5))
        error = (await primary.receive()).error
        assert (error.canonical_code, error.message) == (8, "the CPU port's queue is full")


@asynchronous
async def test_other_stream_messages_are_refused_by_name() -> None:
    async with rig() as switch:
        primary = await switch.primary()
        other = any_pb2.Any(type_url="type.googleapis.com/other")
        await primary.stream.write(p4r.StreamMessageRequest(other=other))
        error = (await primary.receive()).error
        assert (error.canonical_code, error.other.other) == (12, other)
        assert says_in_one_line(error.message, "softswitch", "supported")


# ---- start and stop


@asynchronous
async def test_a_port_in_use_is_one_clear_error() -> None:
    async with rig() as switch:
        ports = FakePorts()
        server = P4RuntimeServer[CompiledPipeline](DEVICE, ports, CompiledPipeline)
        with pytest.raises(SwitchError, match=mentions("Address", switch.address)):
            await server.start(switch.address)
        await server.stop()
        ports.close()


def thread_and_file_counts() -> tuple[int, int]:
    gc.collect()
    return threading.active_count(), len(os.listdir("/proc/self/fd"))


def test_a_stopped_server_leaves_no_threads_or_files() -> None:
    @asynchronous
    async def session() -> None:
        async with rig() as switch:
            primary = await switch.primary()
            await primary.write(update(forward(1)))

    session()  # starts the threads that gRPC has for the whole process
    threads, files = thread_and_file_counts()
    session()
    # gRPC closes its sockets in its own threads, without notification.
    wait_for(lambda: thread_and_file_counts()[0] <= threads and thread_and_file_counts()[1] <= files)
