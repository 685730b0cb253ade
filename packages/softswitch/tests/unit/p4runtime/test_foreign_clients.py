"""A client that is not ours, unmodified, on a running switch: finsy."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import finsy as fy
import pytest
from finsy.p4entity import P4ValueSetMember

from switch_harness import PROGRAMS
from switch_harness.waiting import PATIENCE_S

ROOT = Path(__file__).parents[3]
PROGRAM = PROGRAMS / "control.json"
P4INFO = PROGRAM.with_suffix(".p4info.txtpb")
ENTITIES = PROGRAM.with_name("entities.json")
CPU_PORT = 255


@contextmanager
def switch(program: Path) -> Iterator[str]:
    """The address of a switch process with a program and no port but the CPU's."""
    flags = ["--device-id", "1", "--", "--grpc-server-addr", "127.0.0.1:0", "--cpu-port", str(CPU_PORT)]
    p4info = program.with_suffix(".p4info.txtpb")
    command = [sys.executable, "-m", "softswitch", str(program), "--p4info", str(p4info), *flags]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        message, ready = process.stderr.readline(), process.stderr.readline()
        assert message.startswith("softswitch: datapath ")
        found = re.fullmatch(r"softswitch: ready: 0 ports, P4Runtime on (127\.0\.0\.1:\d+)\n", ready)
        try:
            assert found, ready + process.stderr.read()
            yield found[1]
        finally:
            process.terminate()
            rest = process.stderr.read()
    assert (process.returncode, rest) == (0, "")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with switch(PROGRAM) as found:
        yield found


@pytest.fixture
def entities() -> Iterator[str]:
    with switch(ENTITIES) as found:
        yield found


def test_finsy_writes_entries_and_receives_packets(address: str) -> None:
    wanted = fy.P4TableEntry(
        "forward",
        match=fy.Match(dst_addr=0x020000000107),
        action=fy.Action("forward_to", port=3),
        metadata=b"finsy",
    )

    async def session() -> None:
        options = fy.SwitchOptions(p4info=P4INFO, fail_fast=True)
        async with fy.Switch("s1", address, options) as switch:
            assert [table.alias for table in switch.p4info.tables] == ["forward", "pairs", "types"]
            await switch.insert([wanted])
            assert await first_of(switch.read(wanted)) == wanted
            with pytest.raises(fy.P4ClientError) as error:
                await switch.insert([wanted])
            (detail,) = error.value.details.values()
            assert detail.canonical_code == fy.GRPCStatusCode.ALREADY_EXISTS
            await switch.delete([wanted])
            everything: Any = switch.read(fy.P4TableEntry("forward"))
            assert [entry async for entry in everything] == []

            # What goes out of the CPU port comes back; its first two bytes are then the header.
            header, frame = (CPU_PORT << 7).to_bytes(2, "big"), b"frame of 14 bytes and more"
            answer = asyncio.create_task(first_of(switch.read_packets()))
            await asyncio.sleep(0)  # finsy keeps packets from now on
            await switch.write([fy.P4PacketOut(header + frame, egress_port=CPU_PORT, _pad=0)])
            packet = await answer
            assert (packet.payload, packet["ingress_port"]) == (frame, CPU_PORT)

    asyncio.run(asyncio.wait_for(session(), PATIENCE_S))


def port(number: int) -> fy.Action:
    return fy.Action("forward_to", port=number)


MEMBERS = [fy.P4ActionProfileMember("paths", member_id=i, action=port(i)) for i in (1, 2, 3)]
GROUP = fy.P4ActionProfileGroup(
    "paths", group_id=1, max_size=6, members=[fy.P4Member(3, weight=2), fy.P4Member(1, weight=1)]
)
TO_GROUP = fy.P4TableEntry(
    "balanced", match=fy.Match(dst_addr=(1 << 41, 16)), action=fy.P4IndirectAction(group_id=1)
)
ONE_SHOT = fy.P4TableEntry(
    "balanced",
    match=fy.Match(dst_addr=(1 << 41, 16)),
    action=fy.P4IndirectAction([(2, port(5)), (1, port(6))]),
)
CONFIG = fy.P4MeterConfig(cir=1, cburst=2, pir=3, pburst=4)
KEY: dict[str, Any] = {"match": fy.Match(ether_type=0x0800), "priority": 2}
METERED = fy.P4TableEntry("metered", action=fy.Action("forward_metered", port=1), **KEY)
STORED = [
    fy.P4MulticastGroupEntry(1, replicas=[(1, 0), (2, 0), (1, 7)], metadata=b"note"),
    fy.P4CloneSessionEntry(5, class_of_service=2, packet_length_bytes=64, replicas=[(3, 1)]),
    fy.P4DigestEntry("learned_t", max_list_size=1, ack_timeout_ns=10**9),
    METERED,
]
MODIFIED = [
    fy.P4MeterEntry("rates", index=2, config=CONFIG),
    fy.P4DirectMeterEntry(table_entry=fy.P4TableEntry("metered", **KEY), config=CONFIG),
    fy.P4CounterEntry("counts", index=3, data=fy.P4CounterData(packet_count=4, byte_count=5)),
    fy.P4RegisterEntry("cells", index=3, data=77),
    fy.P4ValueSetEntry("odd_types", members=[P4ValueSetMember(0x1234), P4ValueSetMember(0x88CC)]),
]


async def first_of(items: Any) -> Any:
    """The first of an asynchronous generator, which finsy declares as a coroutine of one."""
    return await anext(items)


async def check(client: fy.Switch, wanted: Sequence[Any]) -> None:
    for one in wanted:
        found = await first_of(client.read(one))
        assert found.encode(client.p4info) == one.encode(client.p4info)


def test_finsy_writes_and_reads_every_kind_of_entity(entities: str) -> None:
    async def session() -> None:
        options = fy.SwitchOptions(p4info=ENTITIES.with_suffix(".p4info.txtpb"), fail_fast=True)
        async with fy.Switch("s1", entities, options) as client:
            written: list[Any] = [*MEMBERS, GROUP, TO_GROUP, *STORED]
            for entry in written:
                await client.insert([entry])
            for changed in MODIFIED:
                await client.modify([changed])
            wanted = [*MEMBERS, GROUP, TO_GROUP, *STORED, *MODIFIED]
            await check(client, wanted)
            with pytest.raises(fy.P4ClientError) as error:
                await client.delete([GROUP])
            (detail,) = error.value.details.values()
            assert detail.canonical_code == fy.GRPCStatusCode.FAILED_PRECONDITION
            for entry in (TO_GROUP, GROUP, *MEMBERS, *STORED):
                await client.delete([entry])
            await client.insert([ONE_SHOT])
            await check(client, [ONE_SHOT])
            await client.delete([ONE_SHOT])

    asyncio.run(asyncio.wait_for(session(), PATIENCE_S))


def test_finsy_hears_digests_and_idle_timeouts(entities: str) -> None:
    async def session() -> None:
        options = fy.SwitchOptions(p4info=ENTITIES.with_suffix(".p4info.txtpb"), fail_fast=True)
        async with fy.Switch("s1", entities, options) as client:
            await client.insert([fy.P4DigestEntry("learned_t", max_list_size=1, ack_timeout_ns=10**12)])
            digests = asyncio.create_task(first_of(client.read_digests("learned_t")))
            await asyncio.sleep(0)  # finsy keeps them from now on
            for source in (7, 7, 8):  # packets from the CPU port, whose sources the program learns
                frame = (1).to_bytes(6, "big") + source.to_bytes(6, "big") + bytes(52)
                await client.write([fy.P4PacketOut(frame, note=0)])
            first = await digests
            assert first.data == [{"src_addr": 7, "port": CPU_PORT}]
            await client.write([first.ack()])
            await client.delete([fy.P4DigestEntry("learned_t")])

            idle = fy.P4TableEntry(
                "seen", match=fy.Match(src_addr=9), action=fy.Action("learn"), idle_timeout_ns=20_000_000
            )
            notices = asyncio.create_task(first_of(client.read_idle_timeouts()))
            await asyncio.sleep(0)
            await client.insert([idle])
            notice = await notices
            assert [entry.match for entry in notice.table_entry] == [idle.match]
            await client.delete([idle])

    asyncio.run(asyncio.wait_for(session(), PATIENCE_S))
