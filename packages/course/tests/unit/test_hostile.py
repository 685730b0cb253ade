"""Hostile submissions lose points with a reason, and neither end, hang nor change the checker."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotline_course import process
from hotline_course.checker import check_batch, check_submission
from hotline_course.errors import SubmissionError
from hotline_course.exercise import COURSE
from hotline_course.limits import Limits
from hotline_course.points import SubmissionResult
from hotline_course.settings import CheckSettings
from packages.course.tests.unit.submissions import SOLUTIONS, submit

LIMITS = Limits(cpu_s=1, idle_s=0.5, memory_mb=900, file_kb=1024)
P4_LIMITS = Limits(cpu_s=1, idle_s=2.0, memory_mb=900)
ANSWER = "def start(capacity): pass\ndef choose(counts, in_switch): return in_switch\n"


def result_of(folder: Path, limits: Limits = LIMITS) -> SubmissionResult:
    return check_submission(folder, COURSE, limits=limits)


def reason_of_rule(folder: Path, code: str) -> str:
    """Return why a rule's module loses its first point; a rule that loads loses others."""
    result = result_of(submit(folder / "mine", "07-rule", rule_py=code))
    assert result.status == 1 and result.earned == 0, result
    return result.checks[0].reason


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("while True: pass", "was ended by the system: it may use 1 s of CPU time"),
        ("import time\ntime.sleep(1000)", "slept for 0.5 s"),
        ("import os\nwhile True: os.fork()", "BlockingIOError"),
        ("import threading\nthreading.Thread(target=print).start()", "can't start new thread"),
        ("x = bytearray(10**10)", "rule.py, line 1: MemoryError"),
        ("exit(0)", "rule.py, line 1: SystemExit: 0"),
        ("import os\nos._exit(0)", "ended with exit status 0"),
        ("import os\nos.kill(os.getpid(), 9)\nos._exit(3)", "ended"),
        ("raise ValueError('\\x1b[2J' + 'x' * 10**5)", "ValueError: \N{REPLACEMENT CHARACTER}[2Jxx"),
        ("def start(:", "SyntaxError"),
        ("import os\nos.closerange(0, 100)\nwhile True: os.getpid()", "CPU time"),
        ("import os\nfor fd in range(99):\n try: os.write(fd, b'x' * 10**6)\n except OSError: 0", "valid"),
    ],
)  # fmt: skip
def test_a_hostile_module_loses_all_points_with_a_reason(tmp_path: Path, code: str, reason: str) -> None:
    found = reason_of_rule(tmp_path, code)
    assert reason in found and len(found) < 7000 and "\x1b" not in found


def test_a_result_that_a_module_prints_or_sends_earns_nothing(tmp_path: Path) -> None:
    forged = """
import json, os, struct
print("7 of 7 points")
text = json.dumps({"ended": 0, "points": 7, "earned": 7, "status": 0, "value": 7}).encode()
for fd in range(3, 100):
    try:
        os.write(fd, struct.pack("!I", len(text)) + text)
    except OSError:
        pass
"""
    result = result_of(submit(tmp_path / "mine", "07-rule", rule_py=forged + ANSWER))
    assert result.status == 1 and result.earned == 0


def test_a_value_that_is_not_of_the_expected_kind_loses_the_check(tmp_path: Path) -> None:
    for number, value in enumerate(
        ("None", "[True] * 3", "'x' * 10**7", "object()", "[[]] * 10", "float('nan')")
    ):
        code = ANSWER.replace("return in_switch", f"return {value}")
        result = result_of(submit(tmp_path / str(number), "07-rule", rule_py=code))
        assert result.earned == 1 and all(check.reason for check in result.checks[1:]), value


PROBE = """
import os, socket
def start(capacity): pass
def choose(counts, in_switch):
    found = []
    for name, attempt in ATTEMPTS.items():
        try:
            attempt()
            found.append(name)
        except (OSError, ModuleNotFoundError):
            pass
    raise ValueError(f"succeeded: {sorted(found)}")
ATTEMPTS = {
    "connect": lambda: socket.create_connection(("127.0.0.1", PORT), timeout=5),
    "see": lambda: open(OTHER).read(),
    "write": lambda: open(TARGET, "w"),
    "remove": lambda: os.remove(TARGET),
    "proc": lambda: open("/proc/self/cmdline"),
    "signal": lambda: os.kill(CHECKER, 0),
    "own": lambda: open("mine.txt", "w").write("x"),
    "large": lambda: open("large.txt", "w").write("x" * 5_000_000),
}
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a folder that all users may read and write: those of pytest are closed to other users."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


def test_a_module_has_no_network_no_files_to_write_and_sees_no_process(
    open_folder: Path, tmp_path: Path
) -> None:
    target = open_folder / "target"
    target.touch()
    target.chmod(0o666)
    other = submit(open_folder / "other", "07-rule")
    with socket.create_server(("127.0.0.1", 0)) as server:
        names = {
            "PORT": server.getsockname()[1], "OTHER": str(other / "rule.py"), "TARGET": str(target),
            "CHECKER": os.getpid(),
        }  # fmt: skip
        code = "".join(f"{name} = {value!r}\n" for name, value in names.items()) + PROBE
        mine = submit(tmp_path / "mine", "07-rule", rule_py=code)
        result, _ = check_batch([mine, other], COURSE, CheckSettings(cpu_seconds=1))
    assert result.not_isolated == ""
    assert "succeeded: ['own']" in result.checks[1].reason
    assert target.exists()


def test_a_process_is_ended_when_the_user_interrupts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted = threading.Event()
    monkeypatch.setattr(process, "INTERRUPTED", interrupted)
    files = {"rule.py": b"while True: pass"}
    with process.SubmissionProcess("python", "rule.py", files, limits=Limits(cpu_s=1000)) as opened:
        interrupted.set()
        with pytest.raises(SubmissionError, match="its process was ended by the user"):
            opened.call("load")


def test_a_process_that_signals_all_processes_ends_itself_alone(tmp_path: Path) -> None:
    code = (
        "import os\nfor number in range(1, 64):\n try: os.kill(-1, number)\n except OSError: pass\n" + ANSWER
    )
    result = result_of(submit(tmp_path / "mine", "07-rule", rule_py=code))
    assert result.status == 1
    assert result_of(submit(tmp_path / "good", "07-rule")).status == 0


HEADERS = "#include <core.p4>\n#include <v1model.p4>\n"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ('#include "forward.p4"\n', "forward.p4"),
        ('#include "/dev/zero"\n', "forward.p4"),
        ('#include "/proc/self/mem"\n', "forward.p4"),
        ("".join(f"#define A{n} A{n + 1} A{n + 1}\n" for n in range(60)) + "A0\n", "forward.p4"),
        ("/" * 300_000, "forward.p4: expected at most 256,000 bytes"),
        (HEADERS + "const bit<8> x = " + "(" * 100_000 + "1" + ")" * 100_000 + ";\n", "forward.p4"),
        (HEADERS, "forward.p4"),
        ("\0\xff", "forward.p4"),
    ],
)
def test_a_hostile_program_loses_all_points_with_a_reason(tmp_path: Path, program: str, reason: str) -> None:
    result = result_of(submit(tmp_path / "mine", "01-forward", forward_p4=program), P4_LIMITS)
    assert result.status == 1 and result.earned == 0
    assert reason in result.checks[0].reason and "\0" not in result.checks[0].reason


def test_a_program_that_sends_frames_around_for_ever_is_ended(tmp_path: Path) -> None:
    folder = submit(tmp_path / "mine", "01-forward")
    program = folder / "forward.p4"
    egress = "inout standard_metadata_t std) { apply {"
    text = program.read_text()
    assert egress in text
    program.write_text(text.replace(egress, f"{egress} recirculate_preserving_field_list(0); "))
    result = result_of(folder, P4_LIMITS)
    assert result.status == 1 and result.earned <= 2
    assert "1 s of CPU time" in result.checks[-1].reason


def test_files_that_are_no_regular_files_are_refused(tmp_path: Path) -> None:
    folder = submit(tmp_path / "mine", "01-forward")
    program = folder / "forward.p4"
    for make in (
        os.mkfifo,
        lambda path: path.symlink_to(SOLUTIONS / "01-forward" / "forward.p4"),
        Path.mkdir,
    ):
        program.rmdir() if program.is_dir() else program.unlink()
        make(program)
        result = result_of(folder)
        assert result.status == 1 and "forward.p4: expected a regular file" in result.checks[0].reason
