"""Programs compiled for fewer callers, which have fewer exactly-once cells."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest

from controller.designs import check_rows
from controller.sizes import CALLERS
from controller.tables import WorkerRow
from foundation.designs.registry import DesignError
from foundation.designs.registry import design as find_design
from foundation.protocol.header import WINDOW_BITS, Op
from softswitch.compiled import CompiledPipeline
from softswitch.pipeline import Change
from tests.harness import testnet
from tools.scripts import p4

SMALL = testnet.FOR_TESTS / "hotline_16.json"
LANES, SMALL_CALLERS = 16, 1024
KEY, SLOT = 1, 3
OF_DESIGNS = {"hotset", "collect"}


@pytest.fixture
def programs() -> list[p4.P4Program]:
    return [program for tree in p4.trees() for program in p4.programs_of(tree)]


def test_a_program_has_cells_for_its_callers() -> None:
    """The last caller's push is added once; another program of the same text has eight times the cells."""
    pipeline = CompiledPipeline(*testnet.code_of(SMALL))
    sizes = {register.name: register.size for register in pipeline.program.registers}
    cells = testnet.INGRESS + "exactly_once.cells"
    assert sizes[cells] == SMALL_CALLERS << WINDOW_BITS
    assert {each.name: each.size for each in testnet.program().registers}[cells] == CALLERS << WINDOW_BITS

    end, port = testnet.CALLERS[1]
    entries = [entry for entry in testnet.network() if "workers" not in entry.table]
    caller = SMALL_CALLERS - 1, *testnet.numbers(end), port, 0
    key = testnet.OFFLOADED, 1, testnet.EPOCH
    entries.append(testnet.insert("identify.workers", key, "identify.set_worker", *caller))
    entries.append(testnet.hot_entry(Change.INSERT, KEY, "hot", SLOT, lane=0))
    testnet.write(pipeline, entries)
    _, frame = testnet.request(Op.PUSH, {0: (KEY, 7)}, (1 << WINDOW_BITS) + 63, compiled_for=LANES)
    for now in range(2):
        [answer] = pipeline.process(port, frame, now, now)
        assert answer.port == port
    assert testnet.held(pipeline, 0, SLOT) == 7
    [last] = pipeline.cells.read_register(cells, sizes[cells] - 1, sizes[cells])
    assert last == testnet.EPOCH << 32 + LANES | 1 << LANES | 1


def test_callers_are_for_the_designs_that_have_their_cells(
    programs: list[p4.P4Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: dict[str, list[str]] = {}

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands[command[-1]] = command
        return subprocess.CompletedProcess(command, 0, stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    for program in programs:
        p4.compile_program(program, p4.Compiler(("p4c-bm2-ss",), is_driver=False), 256)
    assert len(commands) == len(programs) > len(OF_DESIGNS)
    chosen = {source for source, command in commands.items() if "-DCALLERS=256" in command}
    assert chosen == {f"p4src/{name}/{name}.p4" for name in OF_DESIGNS}


def test_a_different_number_of_callers_compiles_the_programs_of_designs_again(
    programs: list[p4.P4Program],
) -> None:
    assert {each.source.stem for each in programs if p4.needs_compiling(each, set(), 256)} == OF_DESIGNS
    assert not any(p4.needs_compiling(each, set(), CALLERS) for each in programs)


@pytest.mark.parametrize("arguments", [["1"], ["8193"], ["-4"], ["many"], ["256", "512"]])
def test_other_numbers_of_callers_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert p4.main(arguments) == 2
    message = capsys.readouterr()
    assert message.out == "" and message.err.count("\n") == 1
    assert "from 2 to 8192" in message.err and repr(" ".join(arguments)) in message.err


def _worker_rows(n_callers: int) -> list[WorkerRow]:
    mac = "02:00:00:00:00:01"
    return [WorkerRow(1, 1, epoch, epoch, mac, "10.0.1.1", 20_000, 1) for epoch in range(n_callers)]


@pytest.mark.parametrize("n_callers", [SMALL_CALLERS - 1, SMALL_CALLERS])
def test_a_run_with_more_callers_than_the_program_has_is_refused(n_callers: int) -> None:
    """One entry is left for the controller."""
    small = replace(find_design("hotset"), program=SMALL)
    if n_callers < SMALL_CALLERS:
        check_rows(small, _worker_rows(n_callers))
        return
    with pytest.raises(DesignError, match=r"^1024 entries of table .*workers: expected at most 1023"):
        check_rows(small, _worker_rows(n_callers))
