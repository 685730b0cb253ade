"""`softswitch cli` and a switch: files, pipes, addresses, and a controller beside it."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from finsy.proto import p4r, p4r_grpc

from softswitch.commands.cli import main
from softswitch.interpreter import InterpretedPipeline
from softswitch.p4runtime.service import P4RuntimeServer
from softswitch.runtime.client import connect
from softswitch.runtime.device import SwitchRuntime
from softswitch.runtime.interface import Runtime
from softswitch.runtime.service import METHODS, runtime_handlers
from switch_harness.p4runtime import CONTROL, DEVICE, Controller, config, forward, update
from switch_harness.switch_runtime import DevicePorts
from switch_harness.wording import says


@contextmanager
def serving(loads_program: bool = True) -> Iterator[str]:
    """The gRPC address of a switch, with program `control` or none, whose event loop has its own thread."""
    ports = DevicePorts()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def on_loop(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    async def start() -> tuple[P4RuntimeServer[Any], int]:
        server = P4RuntimeServer[Any](DEVICE, ports, InterpretedPipeline)
        if loads_program:
            server.pipelines.load_bare(CONTROL.with_suffix(".json").read_bytes())
        runtime: asyncio.Future[Runtime] = loop.create_future()
        runtime.set_result(SwitchRuntime[Any](server.pipelines, ports, DEVICE))
        server.extra_handlers.append(runtime_handlers(runtime, server.reschedule_notifications))
        return server, await server.start("127.0.0.1:0")

    server, port = on_loop(start())
    try:
        yield f"127.0.0.1:{port}"
    finally:
        on_loop(server.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        ports.close()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving() as found:
        yield found


def run(*arguments: str) -> str | int | None:
    """What the process would exit with."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return ended.value.code


def piped(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


@pytest.fixture(autouse=True)
def clear(request: pytest.FixtureRequest) -> None:
    """Clear the tables between the tests of one switch."""
    if "address" in request.fixturenames:
        with connect(request.getfixturevalue("address")) as switch:
            switch.reset_state()


# What BMv2's CLI prints before its first prompt; controllers read so many lines.
GREETING = ["Obtaining JSON from switch...", "Done", "Control utility for runtime P4 table manipulation"]
GOOD = "table_add forward forward_to {} => 2\n"


def test_the_commands_of_a_file_are_executed(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "commands.txt"
    file.write_text(f"# entries\n\n{GOOD.format(1)}{GOOD.format(2)}table_num_entries forward")
    assert run("--grpc", address, str(file)) == 0
    out, err = capsys.readouterr()
    assert (out.splitlines()[-1], err) == ("2", "")
    assert "RuntimeCmd" not in out


def test_a_mistake_ends_a_file(address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "commands.txt"
    file.write_text(f"{GOOD.format(1)}\ntable_add forwrad forward_to 2 => 2\n{GOOD.format(3)}")
    expected = f"{file}:3: 'forwrad': Error: Invalid table name (forwrad)"
    assert run("--grpc", address, str(file)) == f"softswitch: error: {expected}"
    with connect(address) as switch:
        assert switch.table_size("ControlIngress.forward") == 1
    capsys.readouterr()
    assert run("--grpc", address, "--keep-going", str(file)) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[2] for line in lines] == [f"{file}:1", f"{file}:3"]
    with connect(address) as switch:
        assert switch.table_size("ControlIngress.forward") == 2


def test_a_pipe_has_prompts_as_bmv2s_scripts_expect(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    piped(monkeypatch, "register_write cells 1 5\nregister_read cells 1\n")
    assert run("--grpc", address) == 0
    assert capsys.readouterr().out.splitlines() == [
        *GREETING,
        "RuntimeCmd: RuntimeCmd: cells[1]= 5",
        "RuntimeCmd: ",
    ]
    piped(monkeypatch, "register_read cells 4096\nregister_read cells 1\n")
    assert run("--grpc", address, "--keep-going") == 1
    reported = [line for line in capsys.readouterr().out.splitlines() if "cells" in line]
    assert says(reported[0], "RuntimeCmd", "INVALID_INDEX")
    assert reported[1] == "RuntimeCmd: cells[1]= 5"


def test_a_terminal_and_a_switch_without_a_program_have_bmv2s_lines_before_the_prompt(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # of the history
    with serving(loads_program=False) as empty:
        for switch, is_terminal in ((address, True), (empty, True), (empty, False)):
            piped(monkeypatch, "greet\n")
            monkeypatch.setattr("sys.stdin.isatty", lambda answer=is_terminal: answer)
            assert run("--grpc", switch) == 0
            assert capsys.readouterr().out.splitlines() == [*GREETING, "RuntimeCmd: hello", "RuntimeCmd: "]


def test_a_terminal_of_a_user_without_a_home_has_no_history(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    piped(monkeypatch, "greet\n")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert run("--grpc", address) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["RuntimeCmd: hello", "RuntimeCmd: "]


def test_a_switch_is_found_by_its_thrift_port(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host, _, port = address.partition(":")
    for arguments in (["--thrift-port", port], ["--thrift-port", port, "--thrift-ip", host]):
        piped(monkeypatch, "table_num_entries forward\n")
        assert run(*arguments, "--pre", "SimplePreLAG", "--json", f"{CONTROL}.json") == 0
        assert capsys.readouterr().out.splitlines() == [GREETING[-1], "RuntimeCmd: 0", "RuntimeCmd: "]


def test_without_an_address_the_command_finds_the_switch_at_a_default_port(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = "127.0.0.1:1"
    for first, second in ((address, nowhere), (nowhere, address)):
        monkeypatch.setattr("softswitch.commands.cli.DEFAULT_ADDRESS", first)
        monkeypatch.setattr("softswitch.commands.cli.BMV2_ADDRESS", second)
        piped(monkeypatch, "table_num_entries forward\n")
        assert run() == 0
        assert "RuntimeCmd: 0\n" in capsys.readouterr().out


def test_a_missing_switch_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softswitch.runtime.client.CONNECT_TIMEOUT_S", 0.1)
    assert run("--grpc", "127.0.0.1:1") == (
        "softswitch: error: no switch answers at 127.0.0.1:1: use --grpc HOST:PORT"
    )


def test_a_slow_switch_is_not_reported_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softswitch.runtime.client.CONNECT_TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert says(run("--grpc", address), address, "accepts connections", "0.1 s", "load")


def test_commands_and_a_primary_controller_read_the_writes_of_each_other() -> None:
    """Commands work beside a primary controller, and each reads what the other writes."""
    with serving() as address:
        asyncio.run(_beside(address))


async def _beside(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        controller = Controller(p4r_grpc.P4RuntimeStub(channel))
        assert await controller.bid(1) == 0
        await controller.set_config("VERIFY_AND_COMMIT", config())
        await controller.write(update(forward(1)))
        handle = await asyncio.to_thread(_add, address)
        assert (handle, await controller.entries()) == (1, 4)
        await controller.write(update(forward(2), p4r.Update.DELETE))
        assert await controller.entries() == 3


def _add(address: str) -> int:
    with connect(address) as switch:
        assert switch.info()["has_p4info"]
        return switch.table_add(
            "ControlIngress.forward", ["0x2"], 0, {"action": "ControlIngress.forward_to", "data": ["0x3"]}
        )


def test_the_runtime_service_answers_json_and_its_errors_name_the_call(address: str) -> None:
    """Requests and answers are JSON; an error names the call."""
    with grpc.insecure_channel(address) as channel:

        def call(name: str, request: bytes) -> Any:
            rpc: Any = channel.unary_unary(f"/softswitch.v1.Runtime/{name}")
            return json.loads(rpc(request))

        def refused(request: bytes) -> str:
            with pytest.raises(grpc.RpcError) as error:
                call("table_size", request)
            assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            return str(error.value.details())

        assert call("table_size", b'{"table": "ControlIngress.forward"}') == {"answer": 0}
        assert call("info", b"")["answer"]["device_id"] == DEVICE
        for request in (b"", b"[]", b"{", b'{"tables": "x"}'):
            assert refused(request).startswith("Error: table_size: ")
        for text in (b'{"table": 1}', b'{"table": null}'):
            assert says(refused(text), "table")
    assert len(METHODS) == 56
