"""What `hotline status` reads of programs that are not Hotline's, from switches whose contents are known."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import Result
from google.protobuf import text_format

from controller import program
from controller.address import SwitchAddress
from controller.errors import DeviceError, OtherPipeline, PipelineError
from controller.program import (
    CounterTotals,
    ProgramStatus,
    RegisterContents,
    TableContents,
    read_program,
)
from foundation.checkout import environment_with_checkout
from hotline.cli import status
from softswitch.errors import StateError
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Program
from softswitch.p4runtime.messages import p4i, p4r
from softswitch.p4runtime.service import P4RuntimeServer
from softswitch.pipeline import CounterValue
from softswitch.runtime.no_ports import NoPorts
from switch_harness import PROGRAMS
from switch_harness.wording import says
from tests.harness.cli import invoke

CONTROL = PROGRAMS / "control.p4info.txtpb"
INFOS = sorted(PROGRAMS.glob("*.p4info.txtpb"))
_UNIT = p4i.CounterSpec


def p4info_of(file: Path) -> p4i.P4Info:
    return text_format.Parse(file.read_text(), p4i.P4Info())


def name_of(file: Path) -> str:
    return file.name.removesuffix(".p4info.txtpb")


@asynccontextmanager
async def running(file: Path) -> AsyncIterator[tuple[str, InterpretedPipeline]]:
    """Run a server with a program; yield its address and its pipeline."""
    pipelines: list[InterpretedPipeline] = []

    def make(program: Program) -> InterpretedPipeline:
        pipelines.append(InterpretedPipeline(program))
        return pipelines[-1]

    ports = NoPorts()
    server = P4RuntimeServer[Any](1, ports, make)  # an interpreted pipeline decodes no ports' notices
    code = file.with_name(f"{name_of(file)}.json").read_bytes()
    server.pipelines.load(p4r.ForwardingPipelineConfig(p4info=p4info_of(file), p4_device_config=code))
    port = await server.start("127.0.0.1:0")
    try:
        yield f"127.0.0.1:{port}", pipelines[-1]
    finally:
        await server.stop()
        ports.close()


def fill(pipeline: InterpretedPipeline, info: p4i.P4Info) -> None:
    """Set two cells of each counter and, if it has integers, of each register."""
    for counter in info.counters:
        for index in {0, counter.size - 1}:
            pipeline.cells.write_counter(counter.preamble.name, index, CounterValue(index + 3, 100))
    for register in info.registers:
        if register.type_spec.HasField("bitstring"):
            for index in {0, register.size - 1}:
                pipeline.cells.write_register(register.preamble.name, index, 1)


def expected(pipeline: InterpretedPipeline, info: p4i.P4Info) -> ProgramStatus:
    """Return the same from the pipeline's own contents and the text of the P4Info."""
    tables = tuple(
        TableContents(table.preamble.name, pipeline.tables.count(table.preamble.name), table.size)
        for table in info.tables
    )
    names = {table.preamble.id: table.preamble.name for table in info.tables}
    counters = [
        (
            each.preamble.name,
            each.size,
            each.spec.unit,
            pipeline.cells.read_counter(each.preamble.name, 0, each.size),
        )
        for each in info.counters
    ]
    for direct in info.direct_counters:
        values = [entry.counter for entry in pipeline.tables.read(names[direct.direct_table_id])]
        counters.append((direct.preamble.name, len(values), direct.spec.unit, values))
    registers = tuple(
        RegisterContents(
            each.preamble.name,
            each.size,
            sum(value != 0 for value in pipeline.cells.read_register(each.preamble.name, 0, each.size)),
        )
        for each in info.registers
    )
    totals = tuple(
        CounterTotals(
            name,
            cells,
            None if unit == _UNIT.BYTES else sum(value.packets for value in values),
            None if unit == _UNIT.PACKETS else sum(value.bytes for value in values),
        )
        for name, cells, unit, values in counters
    )
    package = info.pkg_info
    return ProgramStatus(package.name, package.version, tables, totals, registers, {})


@pytest.mark.parametrize("file", INFOS, ids=name_of)
def test_the_contents_of_any_program_are_read(file: Path) -> None:
    async def run() -> tuple[ProgramStatus, ProgramStatus]:
        async with running(file) as (address, pipeline):
            fill(pipeline, p4info_of(file))
            found = await asyncio.to_thread(read_program, SwitchAddress(address=address))
            return found, expected(pipeline, p4info_of(file))

    found, wanted = asyncio.run(run())
    assert found == wanted


def run_command(monkeypatch: pytest.MonkeyPatch, *options: str, refuse_registers: bool = False) -> Result:
    """Run `hotline status` on a server with the program `control`, as if the controller had refused it."""

    def refuse(*_: object) -> list[int]:
        raise StateError("registers are not read here")

    monkeypatch.setattr(status, "call_switch", Mock(side_effect=OtherPipeline("another program")))

    async def run() -> Result:
        async with running(CONTROL) as (address, pipeline):
            fill(pipeline, p4info_of(CONTROL))
            if refuse_registers:
                monkeypatch.setattr(pipeline.cells, "read_register", refuse)  # as BMv2 does
            return await asyncio.to_thread(invoke, "status", "--switch", address, *options)

    result = asyncio.run(run())
    assert result.exit_code == 0, result.output
    return result


def test_the_status_of_another_program_has_its_tables_counters_and_registers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    info = p4info_of(CONTROL)
    found = json.loads(run_command(monkeypatch, "--json").stdout)
    assert [each["name"] for each in found["tables"]] == [each.preamble.name for each in info.tables]
    assert [each["nonzero"] for each in found["registers"]] == [2 for _ in info.registers]
    indices = [index for each in info.counters for index in {0, each.size - 1}]
    assert sum(each["packets"] for each in found["counters"]) == sum(index + 3 for index in indices) > 0
    text = run_command(monkeypatch).stdout
    lines = {line.split()[0]: line.split()[1:] for line in text.splitlines()[1:]}
    for table in found["tables"]:
        assert lines[table["name"]] == [str(table["entries"]), f"{table['size']:,}"]
    for register in info.registers:
        assert lines[register.preamble.name] == ["2", f"{register.size:,}"]


def test_status_shows_a_program_whose_p4info_finsy_refuses() -> None:
    """In a process of its own, as that client and the server cannot have two event loops in one."""
    file = PROGRAMS / "translated.p4info.txtpb"

    async def run() -> tuple[bytes, bytes, int | None]:
        async with running(file) as (address, _):
            words = ["-m", "hotline.cli", "status", "--json", "--switch", address]
            process = await asyncio.create_subprocess_exec(
                sys.executable, *words, env=environment_with_checkout(), stdout=PIPE, stderr=PIPE
            )
            return *(await process.communicate()), process.returncode

    printed, errors, status_code = asyncio.run(run())
    assert (errors, status_code) == (b"", 0)
    tables = json.loads(printed)["tables"]
    assert [each["name"] for each in tables] == [each.preamble.name for each in p4info_of(file).tables]


def test_registers_that_a_switch_does_not_read_are_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [register] = p4info_of(CONTROL).registers
    found = json.loads(run_command(monkeypatch, "--json", refuse_registers=True).stdout)
    assert [each["nonzero"] for each in found["registers"]] == [None]
    assert "registers are not read here" in found["unread"][register.preamble.name]
    text = run_command(monkeypatch, refuse_registers=True).stdout
    assert says(text, "–", register.preamble.name, "registers are not read here")


def test_an_array_of_very_many_cells_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "MAX_CELLS", 1)
    found = json.loads(run_command(monkeypatch, "--json").stdout)
    assert found["registers"][0]["nonzero"] is None and found["unread"]


def test_a_switch_without_a_program_or_of_another_device_is_an_error() -> None:
    async def run() -> None:
        ports = NoPorts()
        server = P4RuntimeServer[Any](1, ports, InterpretedPipeline)
        port = await server.start("127.0.0.1:0")
        try:
            for device_id, kind in ((1, PipelineError), (2, DeviceError)):
                address = SwitchAddress(address=f"127.0.0.1:{port}", device_id=device_id)
                with pytest.raises(kind, match=f"127.0.0.1:{port}"):
                    await asyncio.to_thread(read_program, address)
        finally:
            await server.stop()
            ports.close()

    asyncio.run(run())


# Argument: the address. Prints what was imported.
NO_SWITCH = """
import sys
from hotline.cli.commands import COMMANDS, hotline
from click.testing import CliRunner
for line in ("status", "registers --job 4", "offload off --job 4", "proxy on --job 4", "unload --job 4"):
    COMMANDS.load(line.split())
    result = CliRunner().invoke(hotline, [*line.split(), "--switch", sys.argv[1]])
    assert result.exit_code == 1 and f"no switch answers at {sys.argv[1]}" in result.output, result.output
print(*{"finsy", "grpc", "numba", "polars"} & sys.modules.keys())
"""


def test_commands_look_for_a_switch_before_importing_the_p4runtime_client() -> None:
    with socket.socket() as bound:  # bound and not listening: it refuses connections
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "-c", NO_SWITCH, address],
            env=environment_with_checkout(), capture_output=True, text=True,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr
