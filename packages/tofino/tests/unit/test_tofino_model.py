"""The comparison with the Tofino model, of which a stand-in replays the twin's answers."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

from controller.tables import CPU_PORT
from foundation.protocol.header import WINDOW_BITS, Op
from hotline_tofino import model
from hotline_tofino.model import (
    LANES,
    ModelError,
    PortFrame,
    TwinComparison,
    answers_of,
    compile_programs,
    from_twin,
    main,
    shift_slices,
    to_model,
)
from packages.tofino.tests.harness.twins import for_twin
from softswitch.compiled import CompiledPipeline
from switch_harness.wording import mentions, says
from tests.harness import testnet

STAND_IN = """#!/bin/sh
cp "{answers}" "$2"
sed "s|^|$3:1: |" "{messages}"
grep -c "^packet " "$3" >"{count}"
"""


@pytest.fixture(scope="module")
def comparison() -> TwinComparison:
    return TwinComparison(compile_programs(), seed=1, n_frames=40)


def _harness(folder: Path, answers: list[str], messages: str = "") -> tuple[Path, Path]:
    """Write a stand-in for the harness, and an empty output of bfas."""
    asm = folder / "pipe" / "asm"
    asm.mkdir(parents=True)
    (asm / "context.json").write_text('{"tables": []}')
    paths = {name: folder / name for name in ("answers", "messages", "count")}
    paths["answers"].write_text("".join(f"{answer}\n" for answer in answers))
    paths["messages"].write_text(messages)
    harness = folder / "harness"
    harness.write_text(STAND_IN.format(**paths))
    harness.chmod(0o755)
    return harness, folder


def test_equal_answers_and_cells_do_not_differ(comparison: TwinComparison, tmp_path: Path) -> None:
    answers = [str(answer.sent) for answer in comparison.answers]
    assert len(answers) > 10
    assert comparison.differences(*_harness(tmp_path, answers, "no value ..., but 0 is ok\n")) == []
    assert (tmp_path / "count").read_text() == "40\n"


@pytest.mark.parametrize("change", ["missing", "other", "more"])
def test_the_first_frame_that_differs_is_named(
    comparison: TwinComparison, change: str, tmp_path: Path
) -> None:
    answers = [str(answer.sent) for answer in comparison.answers]
    at, received = 5, str(comparison.answers[5].received)
    match change:
        case "missing":
            del answers[5:]
        case "other":
            answers[5] = "1 00"
        case "more":
            answers.append("1 00")
            at, received = len(answers) - 1, "1 00"
    [difference] = comparison.differences(*_harness(tmp_path, answers))
    assert difference.startswith(f"frame {at}: ") and received in difference


def test_a_cell_that_differs_is_reported(comparison: TwinComparison, tmp_path: Path) -> None:
    message = "register values(physical 3) value value is 8, expected =7"
    answers = [str(answer.sent) for answer in comparison.answers]
    assert comparison.differences(*_harness(tmp_path, answers, message + "\n")) == [f"1: {message}"]


def test_headers_of_the_cpu_have_the_chips_order() -> None:
    assert to_model(3, b"ab") == PortFrame(3, b"ab")
    assert to_model(CPU_PORT, bytes([0b0000_0001, 0b1000_0000, 7])) == PortFrame(64, bytes([0, 3, 7]))
    assert to_model(CPU_PORT, bytes([0, 0b0100_0000])) == PortFrame(64, bytes([0b10, 0]))
    assert from_twin(CPU_PORT, bytes([0b0000_0001, 0b1000_0000, 7])) == PortFrame(64, bytes([0, 3, 7]))


def test_a_missing_file_is_one_line_of_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--seeds", "1", "--frames", "1", str(tmp_path / "harness"), str(tmp_path)]
    monkeypatch.setattr(sys, "argv", [model.__file__, *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(model.__file__, run_name="__main__")
    # Python prints such a code on standard error, and exits with 1.
    message = ended.value.code
    assert isinstance(message, str) and "\n" not in message and capsys.readouterr() == ("", "")
    assert message.startswith(f"tofino: {tmp_path}/pipe/asm/context.json: expected the output of bfas: ")


def test_a_program_that_is_no_harness_is_refused(comparison: TwinComparison, tmp_path: Path) -> None:
    _, output = _harness(tmp_path, [])
    for program, reason in ((Path("/bin/true"), "no frames"), (tmp_path / "missing", "No such file")):
        with pytest.raises(ModelError, match=mentions("harness", program, reason)):
            comparison.differences(program, output)


def test_constant_entries_of_slices_are_moved() -> None:
    field = {"name": "is_live", "start_bit": 9}
    match = {"field_name": "is_live", "value": "0x1", "mask": "0x1"}
    table = {"match_key_fields": [field], "static_entries": [{"match_key_fields_values": [match]}]}
    [moved, _] = json.loads(shift_slices(json.dumps({"tables": [table, {}]})))["tables"]
    assert moved["static_entries"][0]["match_key_fields_values"] == [
        {"field_name": "is_live", "value": "0x200", "mask": "0x200"}
    ]


def test_the_page_says_how_many_frames_are_compared_by_default() -> None:
    defaults = main.make_context("model", ["HARNESS", "OUTPUT"]).params
    n_frames = defaults["seeds"] * defaults["frames"]
    page = Path(__file__).parents[2] / "README.md"
    assert says(page.read_text(), "answers", f"{n_frames:,}")


@pytest.mark.parametrize(("missing", "n_answers"), [(0, 1), (4, 1), (5, 0)])
def test_a_frames_check_sequence_stands_in_for_missing_bytes(missing: int, n_answers: int) -> None:
    twin = CompiledPipeline(*compile_programs()[1])
    testnet.write(twin, [for_twin(entry) for entry in testnet.network()])
    port, frame = testnet.request(Op.EMPTY, {}, 1 << WINDOW_BITS, compiled_for=LANES)
    assert len(answers_of(twin, port, frame[: len(frame) - missing], 0)) == n_answers
