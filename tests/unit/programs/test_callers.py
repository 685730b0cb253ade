"""Programs compiled for fewer callers, which have fewer exactly-once cells."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from controller.controller_ops import check_rows
from controller.sizes import CALLERS
from controller.tables import WorkerRow
from foundation.checkout import ROOT
from foundation.designs.programs import P4Program, compiled, included_by, programs_of, trees
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
CELLS = ROOT / "p4src" / "hotset" / "exactly_once.p4"


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


def test_fewer_callers_are_kept_until_the_next_call_without_a_number(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The designs' programs get fewer cells, and no other one changes."""
    monkeypatch.setattr(p4, "ROOT", tmp_path)
    (tmp_path / "p4src").mkdir()
    p4.write_definitions(256)
    assert json.loads((tmp_path / "p4src" / "compiled" / "definitions.json").read_text()) == {
        "CALLERS": "256"
    }
    programs = [program for tree in trees() for program in programs_of(tree)]
    moved = {
        each: P4Program(each.source, tmp_path / "p4src" / "compiled" / each.source.stem) for each in programs
    }
    chosen = [each for each in programs if each.source.is_relative_to(ROOT / "p4src")]
    changed = {each.source.stem for each in chosen if compiled(moved[each]).p4info != compiled(each).p4info}
    assert changed == OF_DESIGNS == {each.source.stem for each in programs if has_cells(each)}
    p4.write_definitions(CALLERS)
    assert not (tmp_path / "p4src" / "compiled" / "definitions.json").exists()


def has_cells(program: P4Program) -> bool:
    return program.source.is_relative_to(ROOT / "p4src") and CELLS in included_by(program.source)


@pytest.mark.parametrize("arguments", [["1"], ["8193"], ["-4"], ["many"], ["256", "512"]])
def test_other_numbers_of_callers_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert p4.main(arguments) == 1
    message = capsys.readouterr()
    assert message.out == "" and message.err.strip().count("\n") == 0
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
