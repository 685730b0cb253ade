"""The controller on a switch with parameter servers and workers in one process."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
from collections import Counter
from pathlib import Path
from subprocess import PIPE
from unittest.mock import AsyncMock

import finsy as fy
import numpy as np
import pytest
from finsy import p4client

from controller import client, inband
from controller.client import SwitchClient
from controller.controller import Controller
from controller.errors import (
    DeviceError,
    MoveRefused,
    NoAnswer,
    NotPrimary,
    PipelineError,
    UnknownJob,
    UnknownKey,
)
from controller.inband import InBand, Servers
from controller.status import SwitchStatus
from controller.tables import KeyState, WorkerRow
from foundation.concurrency import gather_or_cancel
from foundation.protocol.hashing import ps_of
from foundation.protocol.header import CONTROLLER_CALLER, WINDOW
from switch_harness import PROGRAMS
from switch_harness.waiting import PATIENCE_S
from switch_harness.wording import mentions, says, says_in_one_line
from tests.harness.cli import invoke, write_hot_set
from tests.harness.livenet import JOB, KEYS, LiveNet, live
from tests.harness.warm_processes import WarmProcess, warm_process
from tests.harness.wire import MODULUS

SILENCE = 1.0


async def commit() -> None:
    async with LiveNet(JOB, KEYS) as net, Controller(net.address) as controller:
        await controller.commit_pipeline()


async def status(net: LiveNet) -> SwitchStatus:
    async with Controller(net.address, primary=False) as controller:
        return await controller.status()


async def states(net: LiveNet) -> dict[int, KeyState]:
    return {param.key: param.state for param in (await status(net)).params}


async def check_sums(net: LiveNet) -> None:
    """Check that servers and switch hold the sums of all pushes, and each key has one owner."""
    for job in net.jobs:
        sent = sum((load.sent for load in net.loads if load.job == job), Counter[int]())
        async with Controller(net.address) as controller:
            held = {entry.param.key: entry.values for entry in await controller.registers(job)}
        for key in range(KEYS):
            store = net.servers[ps_of(key, net.n_ps)].stores[job]
            at = store.locate(np.array([key], dtype=np.uint64))
            in_switch = held.get(key)
            assert store.is_owned(at).item() == (in_switch is None)
            values = store.values(at).astype(np.int64) + (0 if in_switch is None else in_switch)
            assert (values % MODULUS == sent[key] % MODULUS).all()


def given_away(net: LiveNet) -> int:
    return sum(int((~server.store.contents().owned).sum()) for server in net.servers)


async def hotline(net: LiveNet, *arguments: str) -> tuple[int, str, str]:
    """Run the command line against the net in a thread; return exit code, stdout and stderr."""
    command, *rest = arguments
    ran = await asyncio.to_thread(invoke, command, "--switch", net.address, *rest)
    return ran.exit_code, ran.stdout, ran.stderr


async def start_hotline(net: LiveNet, *arguments: str) -> WarmProcess:
    """Start the command line in a process of its own: gRPC takes one loop in each, and Ctrl-C a process."""
    command, *rest = arguments
    return await asyncio.to_thread(
        warm_process, "hotline.cli", command, "--switch", net.address, *rest, stdout=PIPE, stderr=PIPE
    )


async def read_line(process: WarmProcess) -> str:
    assert process.stdout is not None
    return await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), PATIENCE_S)


async def ended(process: WarmProcess) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr of a process at its end."""
    output, errors = await asyncio.to_thread(process.communicate, PATIENCE_S)
    return process.wait(), output, errors


async def all_muted(net: LiveNet) -> None:
    await asyncio.wait_for(asyncio.gather(*(server.muted.wait() for server in net.servers)), PATIENCE_S)


async def interrupt_move(net: LiveNet, *command: str, again: str) -> None:
    """Interrupt a command amid a move, and check that it says how to finish it."""
    net.mute_servers(after=1)
    process = await start_hotline(net, *command, "--job", str(JOB))
    await all_muted(net)
    process.send_signal(signal.SIGINT)
    code, _, reported = await ended(process)
    net.mute_servers(after=None)
    assert code == 130 and reported.count("\n") == 1
    assert "interrupted" in reported and again in reported


@pytest.mark.parametrize("loss", [pytest.param(0.0, marks=pytest.mark.soak), 0.05])
@live()
async def test_hot_sets_change_under_load_and_nothing_is_lost(net: LiveNet, loss: float) -> None:
    async def change(net: LiveNet) -> None:
        async with Controller(net.address) as controller:
            first = await controller.load(JOB, range(200))
            assert first.summary() == {
                "inserts": 200, "modifies": 200, "deletes": 0, "seeded": 200, "collected": 0,
            }  # fmt: skip
            again = await controller.load(JOB, random.Random(1).sample(range(200), 200))
            assert again.moves == ()
            second = await controller.load(JOB, range(150, 250))
            assert second.summary() == {
                "inserts": 50, "modifies": 200, "deletes": 150, "seeded": 50, "collected": 150,
            }  # fmt: skip
            await controller.set_offload(JOB, False)
            await controller.set_offload(JOB, True)

    await net.work_while(change(net))
    assert await states(net) == dict.fromkeys(range(150, 250), KeyState.HOT)
    assert sum((load.sent for load in net.loads), Counter[int]()).total() > 0
    await check_sums(net)


@live()
async def test_unload_moves_all_keys_to_their_servers(net: LiveNet) -> None:
    async def move(net: LiveNet) -> None:
        async with Controller(net.address) as controller:
            await controller.load(JOB, range(100))
            await controller.unload(JOB)

    await net.work_while(move(net))
    assert await states(net) == {}
    assert given_away(net) == 0
    await check_sums(net)


@pytest.mark.soak
@live()
async def test_a_killed_load_is_finished_by_loading_again(net: LiveNet, tmp_path: Path) -> None:
    async def kill(net: LiveNet, file: str) -> None:
        net.mute_servers(after=1)
        process = await start_hotline(net, "load", "--job", str(JOB), file)
        await all_muted(net)
        process.kill()
        await ended(process)
        assert set((await states(net)).values()) == {KeyState.RESERVED}
        assert 0 < given_away(net) < KEYS
        net.mute_servers(after=None)
        code, output, errors = await hotline(net, "load", "--job", str(JOB), "--json", file)
        assert (code, errors) == (0, "")
        assert json.loads(output)["modifies"] == KEYS and json.loads(output)["inserts"] == 0

    await net.work_while(kill(net, write_hot_set(tmp_path, dict.fromkeys(range(KEYS), 1))))
    assert await states(net) == dict.fromkeys(range(KEYS), KeyState.HOT)
    await check_sums(net)


@live()
async def test_an_interrupted_move_says_how_to_finish_the_move(net: LiveNet, tmp_path: Path) -> None:
    file = write_hot_set(tmp_path, dict.fromkeys(range(KEYS), 1))
    await interrupt_move(net, "load", file, again="load again")
    code, _, errors = await hotline(net, "load", "--job", str(JOB), file)
    assert (code, errors) == (0, "")
    await interrupt_move(net, "offload", "off", again="offload off again")


@live(offload=False)
async def test_without_offload_keys_are_parked_and_no_server_is_asked(net: LiveNet) -> None:
    net.mute_servers(after=0)
    async with Controller(net.address) as controller:
        await controller.load(JOB, range(50))
        assert await states(net) == dict.fromkeys(range(50), KeyState.PARKED)
        assert [entry.values for entry in await controller.registers(JOB)] == [None] * 50
    async with Controller(net.address, timeout_s=SILENCE) as hurried:
        with pytest.raises(NoAnswer):
            await hurried.set_offload(JOB, True)
    net.mute_servers(after=None)
    async with Controller(net.address) as controller:
        await controller.set_offload(JOB, True)
        assert await states(net) == dict.fromkeys(range(50), KeyState.HOT)
        await controller.set_offload(JOB, False)
        assert await states(net) == dict.fromkeys(range(50), KeyState.PARKED)
        assert [job.offload for job in (await controller.status()).jobs] == [False]


@live()
async def test_refused_moves_change_nothing(net: LiveNet) -> None:
    async with Controller(net.address) as controller:
        await controller.load(JOB, [1])
        with pytest.raises(MoveRefused, match=mentions("PS", "keys")):
            await controller.load(JOB, [2, KEYS])
        with pytest.raises(UnknownJob, match=mentions("job 9", "jobs", 3)):
            await controller.load(9, [2])
    net.servers[1].mute_after = 0
    async with Controller(net.address, timeout_s=SILENCE) as hurried:
        with pytest.raises(NoAnswer, match=mentions("PS", "PS 1", "10.0.2.2", "RENEW", "1 s")):
            await hurried.load(JOB, range(50))
    assert await states(net) == {1: KeyState.HOT}


@live()
async def test_registers_are_read_through_the_data_plane(net: LiveNet) -> None:
    for server in net.servers:
        keys = server.store.contents().keys
        server.store.reclaim(server.store.locate(keys), np.negative(keys.astype(np.uint32)))
    async with Controller(net.address) as controller:
        await controller.load(JOB, range(1, KEYS))
        found = await controller.registers(JOB, [7, 99])
        assert {entry.param.key: entry.values for entry in found} == {7: (-7,), 99: (-99,)}
        with pytest.raises(UnknownKey, match=mentions("job 3", "key 0", 777777)):
            await controller.registers(JOB, [7, 777777, 0])
        everything = await controller.registers(JOB)
        values = {entry.param.key: entry.values for entry in everything}
        assert values == {key: (-key,) for key in range(1, KEYS)}
        # More reads than slots: each slot's next read is its next turn, in the lowest free row.
        assert net.pipeline is not None
        cells = net.pipeline.cells.read_register("HotlineIngress.exactly_once.cells", 0, WINDOW)
        assert {cell >> 32 & 0xFFFFFFFF for cell in cells} == {0, 1, 2}
        # A controller that was killed while it read leaves its entry; the next one takes it away.
        left = WorkerRow(JOB, CONTROLLER_CALLER, 77, 5, "02:00:00:00:04:01", "10.0.4.1", 5001, 255, 1)
        await controller.install(left)
        assert len(await controller.registers(JOB, [7])) == 1
        assert CONTROLLER_CALLER not in {row.worker for row in (await controller.status()).workers}


async def test_a_lost_command_is_repeated_while_many_other_commands_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A large set takes hundreds of commands; the lost ones wait while others go on."""
    monkeypatch.setattr(inband, "_FIRST_TIMEOUT_S", 1.0)
    monkeypatch.setattr(inband, "_MAX_TIMEOUT_S", 1.0)

    async with LiveNet(JOB, 20_000, loss=0.02) as net:
        await net.set_up()
        async with SwitchClient(net.address) as switch, InBand(switch, timeout_s=PATIENCE_S) as caller:
            await caller.check(Servers.of_one_switch([server.row for server in net.servers]), range(20_000))


@pytest.mark.parametrize(
    ("program", "tables"), [(PROGRAMS / "control", "[a-z_, ]+"), (PROGRAMS / "wire", "none")]
)
async def test_a_switch_without_our_pipeline_is_left_alone(program: Path, tables: str) -> None:
    async with LiveNet(JOB, KEYS) as net:
        async with Controller(net.address) as controller:
            with pytest.raises(PipelineError, match="has no pipeline"):
                await controller.load(JOB, [1])
        options = fy.SwitchOptions(PROGRAMS / f"{program}.p4info.txtpb", PROGRAMS / f"{program}.json")
        async with fy.Switch("other", net.address, options):
            pass
        other = net.pipeline
        async with Controller(net.address) as controller:
            text = rf"another pipeline than hotset\.json, with the tables {tables}; nothing was"
            with pytest.raises(PipelineError, match=text):
                await controller.load(JOB, [1])
            assert net.pipeline is other
            assert await controller.commit_pipeline() is True
            assert net.pipeline is not other


async def test_a_commit_that_fails_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async with LiveNet(JOB, KEYS) as net, Controller(net.address) as controller:
        # Finsy fails this way if the switch refuses the pipeline or times out.
        monkeypatch.setattr(fy.Switch, "__aenter__", AsyncMock(side_effect=asyncio.CancelledError))
        with pytest.raises(DeviceError, match=mentions("pipeline", "switch")):
            await controller.commit_pipeline()


@live()
async def test_the_primary_is_outbid_and_gets_its_place_back(net: LiveNet) -> None:
    async with fy.Switch("other", net.address, fy.SwitchOptions(initial_election_id=50)) as other:
        became_primary = other.ee.event_future(fy.SwitchEvent.BECOME_PRIMARY)
        async with Controller(net.address) as controller:
            await controller.load(JOB, [1])
        await asyncio.wait_for(became_primary, PATIENCE_S)
        async with Controller(net.address) as controller, Controller(net.address) as later:
            with pytest.raises(NotPrimary, match=mentions("controller", "another")):
                await controller.load(JOB, [2])
            await later.load(JOB, [2])
    assert await states(net) == {2: KeyState.HOT}


@live()
async def test_a_run_that_loads_is_not_disturbed(net: LiveNet) -> None:
    async with Controller(net.address, exclusive=True) as run:
        with pytest.raises(NotPrimary, match=rf"a run \(process {os.getpid()}\) is setting"):
            async with Controller(net.address):
                pass
        await run.load(JOB, [1])
    async with Controller(net.address) as controller:
        await controller.load(JOB, [2])
    assert await states(net) == {2: KeyState.HOT}


@live()
async def test_a_switch_that_goes_away_ends_a_load(net: LiveNet) -> None:
    net.servers[0].mute_after = 1
    async with Controller(net.address) as controller:
        loading = asyncio.ensure_future(controller.load(JOB, range(KEYS)))
        await net.servers[0].muted.wait()
        await net.switch_off()
        # A packet-out that is under way then is waited for, and the error says that the switch is gone.
        gone = r"has closed the connection|no switch answers|packet-out failed|nothing accepts connections"
        with pytest.raises(DeviceError, match=gone):
            await asyncio.wait_for(loading, PATIENCE_S)


async def test_finsy_sets_no_deadline_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline that finsy sets has a private name."""
    assert p4client._DEFAULT_RPC_TIMEOUT is None
    monkeypatch.setattr(p4client, "_DEFAULT_RPC_TIMEOUT", 0.001)
    with pytest.raises(DeviceError):
        await commit()


async def test_a_run_waits_longer_for_its_switch_than_other_controllers_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The switch listens before its code is compiled."""
    monkeypatch.setattr(client, "CONNECT_TIMEOUT_S", 0.1)
    monkeypatch.setattr(client, "_SWITCH_START_TIMEOUT_S", 0.3)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        for exclusive, seconds in ((False, "0.1"), (True, "0.3")):
            with pytest.raises(DeviceError, match=mentions(f"{seconds} s", "accepts connections", "load")):
                async with Controller(address, exclusive=exclusive):
                    pass


async def test_a_commit_that_times_out_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_CALL_TIMEOUT_S", 0)
    with pytest.raises(DeviceError, match=mentions("commit", "within 0 s")):
        await commit()


@live()
async def test_commands_load_keys_and_read_registers_of_a_live_switch(net: LiveNet, tmp_path: Path) -> None:
    job = ("--job", str(JOB))
    file = write_hot_set(tmp_path, dict.fromkeys(range(40), 1))
    would = (0, "would do: 40 inserts, 40 modifies, 40 seeded\n", "")
    assert await hotline(net, "load", *job, "--dry-run", file) == would
    assert await states(net) == {}
    assert await hotline(net, "load", *job, file) == (0, would[1].replace("would do", "done"), "")
    assert await hotline(net, "load", *job, file) == (0, "nothing to do\n", "")
    code, output, _ = await hotline(net, "registers", *job, "--json", "3", "4")
    assert [(row["key"], row["values"]) for row in json.loads(output)] == [(3, [0]), (4, [0])]
    assert (await hotline(net, "registers", *job))[1].count("hot") == 40
    code, output, errors = await hotline(net, "registers", *job, "3", "777777")
    assert (code, output) == (1, "") and says(errors, "key 777777", "switch")
    off = (0, "done: offload off, 80 modifies, 40 collected\n", "")
    assert await hotline(net, "offload", *job, "off") == off
    assert await hotline(net, "offload", *job, "off") == (0, "nothing to do\n", "")
    assert await hotline(net, "proxy", *job, "off") == (0, "done: proxy off\n", "")
    assert await hotline(net, "proxy", *job, "off") == (0, "nothing to do\n", "")
    code, output, _ = await hotline(net, "status", "--json")
    (found,) = json.loads(output)["jobs"]
    assert (found["offload"], found["proxy"]) == (False, False)
    assert found["entries"] == {"hot": 0, "reserved": 0, "draining": 0, "parked": 40}
    assert len(json.loads(output)["lanes"]) == 32
    code, output, _ = await hotline(net, "status")
    assert code == 0 and output.splitlines()[2].split()[:4] == ["proxy", "3", "off", "off"]
    assert "10.0.2.2" not in output
    code, output, _ = await hotline(net, "status", "--all")
    assert code == 0 and "10.0.2.2" in output and "stale_turn" in output
    assert await hotline(net, "unload", *job) == (0, "done: 40 deletes\n", "")
    # Without entries the flag is all that changes.
    assert await hotline(net, "offload", *job, "--dry-run", "on") == (0, "would do: offload on\n", "")
    code, output, _ = await hotline(net, "offload", *job, "--json", "on")
    assert (code, json.loads(output)["offload"], json.loads(output)["inserts"]) == (0, "on", 0)
    assert (await status(net)).jobs[0].offload is True
    code, output, errors = await hotline(net, "unload", "--job", "9")
    assert (code, output) == (1, "") and says_in_one_line(errors, "job 9", "jobs", 3)
    code, output, errors = await hotline(net, "load", *job, str(tmp_path / "log.parquet"))
    assert code == 1 and says(errors, "columns", "rank") and errors.count("\n") == 1


async def test_the_first_error_cancels_concurrent_tasks() -> None:
    ended = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    with pytest.raises(DeviceError, match="first"):
        await gather_or_cancel([wait(), AsyncMock(side_effect=DeviceError("first"))()])
    assert ended == [True]
