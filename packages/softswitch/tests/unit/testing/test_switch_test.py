"""`softswitch.testing`: a program's entries, frames, expectations and coverage, without a switch."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from google.protobuf import text_format

from softswitch.errors import SwitchError
from softswitch.p4runtime.messages import p4i
from softswitch.testing import Switch
from switch_harness import PROGRAMS
from switch_harness.wording import mentions, says

PAGE = Path(__file__).parents[3] / "docs" / "testing.md"
FRAME = bytes.fromhex("00000000000b 00000000000a 0800") + bytes(46)
ENTRY = """
updates {
  type: INSERT
  entity { table_entry {
    table_id: %d
    match { field_id: 1 exact { value: "\\x0b" } }
    action { action { action_id: %d params { param_id: 1 value: "\\x03" } } }
  } }
}
"""


@pytest.fixture
def l2() -> Iterator[Switch]:
    with Switch(PROGRAMS / "l2.json", PROGRAMS / "l2.p4info.txtpb") as switch:
        yield switch


def test_entries_are_added_by_commands(l2: Switch) -> None:
    l2.expect(1, FRAME)
    l2.run("table_add hosts forward 00:00:00:00:00:0b => 2")
    l2.expect(1, FRAME, (2, FRAME))
    assert len(l2.run("table_dump hosts")) > len(l2.run())


def test_entries_are_added_by_p4runtime_requests(l2: Switch) -> None:
    info = text_format.Parse((PROGRAMS / "l2.p4info.txtpb").read_text(), p4i.P4Info())
    (action,) = [a.preamble.id for a in info.actions if a.preamble.alias == "forward"]
    l2.write(ENTRY % (info.tables[0].preamble.id, action))
    l2.expect(1, FRAME, (3, FRAME))
    with pytest.raises(SwitchError, match="already"):
        l2.write(ENTRY % (info.tables[0].preamble.id, action))
    with pytest.raises(SwitchError, match=mentions("WriteRequest")):
        l2.write("updates {")


def test_mistakes_in_commands_are_switch_errors(l2: Switch, tmp_path: Path) -> None:
    with pytest.raises(SwitchError, match="table_add nowhere"):
        l2.run("table_add nowhere forward 0 => 1")
    (tmp_path / "broken.json").write_text("{}")
    with pytest.raises(SwitchError, match=r"broken\.json: "):
        Switch(tmp_path / "broken.json")


def test_a_failed_expectation_shows_the_trace_of_the_packet(l2: Switch) -> None:
    with pytest.raises(AssertionError, match="got no frame") as failed:
        l2.expect(1, FRAME, (2, FRAME))
    assert says(str(failed.value), "L2Ingress.hosts", "table")
    l2.run("table_add hosts forward 00:00:00:00:00:0b => 2")
    with pytest.raises(AssertionError, match="expected no frame"):
        l2.expect(1, FRAME)


def test_coverage_lists_the_states_tables_and_actions_that_packets_missed(l2: Switch) -> None:
    assert not l2.coverage.reached
    l2.process(1, FRAME)
    assert l2.coverage.missed == [
        ("table", "L2Ingress.hosts hit"), ("action", "L2Ingress.forward of L2Ingress.hosts"),
    ]  # fmt: skip
    l2.run("table_add hosts forward 00:00:00:00:00:0b => 2")
    l2.process(1, FRAME)
    assert not l2.coverage.missed
    assert l2.coverage.report() == ["parser states: 1 of 1", "tables: 2 of 2", "actions: 2 of 2"]


def test_registers_keep_their_values_between_frames() -> None:
    with Switch(PROGRAMS / "control.json") as switch:
        frame = FRAME[:14] + bytes(4)
        switch.process(1, frame)
        (first,) = switch.run("register_read ControlIngress.cells 0")
        switch.process(1, frame)
        assert switch.run("register_read ControlIngress.cells 0") != [first]


def test_the_pages_example_passes_and_reports_coverage(tmp_path: Path) -> None:
    """The files and the command of docs/testing.md, in a folder that has the program, too."""
    page = PAGE.read_text()
    example = next(
        block for block in re.findall(r"(?:^(?:    .*)?\n)+", page, re.MULTILINE) if "# conftest.py" in block
    )
    _, *parts = re.split(r"^# (\w+\.py)\n", dedent(example), flags=re.MULTILINE)
    files = dict(zip(parts[::2], parts[1::2], strict=True))
    assert set(files) == {"conftest.py", "test_l2.py"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "l2.p4").symlink_to(PROGRAMS.parent / "l2.p4")
    [command] = re.findall(r"^    python (-m pytest .*)$", page, re.MULTILINE)
    done = subprocess.run(
        [sys.executable, *command.split(), "-p", "no:cacheprovider"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert says(done.stdout, "3 passed") and "tables: 2 of 2" in done.stdout
