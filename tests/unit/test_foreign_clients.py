"""Clients that are not ours, unmodified, on a running switch: finsy and p4runtime-shell."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import finsy as fy
import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "p4runtime" / "control.json"
P4INFO = PROGRAM.with_suffix(".p4info.txtpb")
CPU_PORT = 255


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A switch process with the program of `control.p4`, and no port but the CPU's."""
    flags = ["--device-id", "1", "--", "--grpc-server-addr", "127.0.0.1:0", "--cpu-port", str(CPU_PORT)]
    command = [sys.executable, "-m", "softswitch", str(PROGRAM), "--p4info", str(P4INFO), *flags]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as switch:
        assert switch.stderr is not None
        ready = switch.stderr.readline()
        found = re.fullmatch(r"softswitch: ready: 0 ports, P4Runtime on (127\.0\.0\.1:\d+)\n", ready)
        try:
            assert found, ready + switch.stderr.read()
            yield found[1]
        finally:
            switch.terminate()
            rest = switch.stderr.read()
    assert (switch.returncode, rest) == (0, "")


def test_finsy(address: str) -> None:
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
            assert await switch.read(wanted).__anext__() == wanted
            with pytest.raises(fy.P4ClientError) as error:
                await switch.insert([wanted])
            (detail,) = error.value.details.values()
            assert detail.canonical_code == fy.GRPCStatusCode.ALREADY_EXISTS
            await switch.delete([wanted])
            assert [entry async for entry in switch.read(fy.P4TableEntry("forward"))] == []

            # What goes out of the CPU port comes back; its first two bytes are then the header.
            header, frame = (CPU_PORT << 7).to_bytes(2, "big"), b"frame of 14 bytes and more"
            answer = asyncio.create_task(switch.read_packets().__anext__())
            await asyncio.sleep(0)  # finsy keeps packets from now on
            await switch.write([fy.P4PacketOut(header + frame, egress_port=CPU_PORT, _pad=0)])
            packet = await answer
            assert (packet.payload, packet["ingress_port"]) == (frame, CPU_PORT)

    asyncio.run(asyncio.wait_for(session(), 30))


SHELL_SESSION = """
tables
te = table_entry["forward"](action="forward_to")
te.match["dst_addr"] = "02:00:00:00:01:07"
te.action["port"] = "3"
te.insert()
found = list(table_entry["forward"].read())
print("after insert:", len(found), str(found[0]) == str(te))
te.delete()
print("after delete:", len(list(table_entry["forward"].read())))
exit()
"""


def test_p4runtime_shell(address: str) -> None:
    session = subprocess.run(
        [ROOT / "scripts" / "shell"],
        input=SHELL_SESSION,
        env=os.environ | {"SWITCH": address},
        capture_output=True,
        text=True,
        timeout=300,  # the first time, it installs the shell
    )
    assert session.returncode == 0, session.stderr
    said = [line.removeprefix("P4Runtime sh >>> ") for line in session.stdout.splitlines()]
    assert [line for line in said if line.startswith("ControlIngress.")] == [
        "ControlIngress.forward",
        "ControlIngress.pairs",
        "ControlIngress.types",
    ]
    assert [line for line in said if line.startswith("after")] == [
        "after insert: 1 True",
        "after delete: 0",
    ]
