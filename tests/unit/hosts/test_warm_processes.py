"""Forks of a warm process are to tests what new processes are: their streams, signals, and exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from tests.harness.warm_processes import warm_process

MODULE = "json.tool"
"""Reads standard input to its end, and writes to standard output, or an error."""


@pytest.mark.parametrize(
    ("arguments", "text"), [(("--compact",), '{"a": [1, 2]}'), ((), "{"), (("--no-such-option",), "")]
)
def test_a_warm_process_writes_and_ends_like_a_new_process(arguments: tuple[str, ...], text: str) -> None:
    new = subprocess.run(
        [sys.executable, "-m", MODULE, *arguments], input=text, capture_output=True, text=True
    )
    with warm_process(MODULE, *arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE) as warm:
        assert warm.stdin is not None
        warm.stdin.write(text)
        assert (*warm.communicate(), warm.returncode) == (new.stdout, new.stderr, new.returncode)


def test_a_warm_process_has_its_arguments_and_environment_variables(tmp_path: Path) -> None:
    (tmp_path / "found.py").write_text("import os, sys; print(os.environ['GIVEN'], *sys.argv[1:], __name__)")
    variables = {"GIVEN": "a = b", "PYTHONPATH": str(tmp_path)}
    with warm_process("found", "--x", "y z", stdout=PIPE, stderr=PIPE, variables=variables) as process:
        assert process.communicate() == ("a = b --x y z __main__\n", "") and process.returncode == 0


def test_a_warm_process_can_be_waited_for_and_killed() -> None:
    with warm_process(MODULE, stdin=PIPE) as first, warm_process(MODULE, stdin=PIPE) as second:
        assert first.pid == os.getsid(first.pid) != second.pid
        with pytest.raises(subprocess.TimeoutExpired):
            first.wait(0.01)
        assert first.poll() is None
        second.kill()
        assert second.wait() == second.poll() == -signal.SIGKILL
        os.killpg(first.pid, signal.SIGTERM)
        assert first.communicate() == ("", "") and first.returncode == -signal.SIGTERM


def test_a_warm_process_has_its_own_streams(tmp_path: Path) -> None:
    """The end of a pipe is seen while other processes run; a file is written by one of them."""
    (tmp_path / "in").write_text("[]")
    with (
        (tmp_path / "in").open() as given,
        (tmp_path / "out").open("w") as output,
        warm_process(MODULE, stdin=PIPE, stdout=PIPE) as other,
        warm_process(MODULE, stdin=given, stdout=output, stderr=PIPE) as process,
    ):
        assert process.communicate() == ("", "") and process.returncode == 0
        assert (tmp_path / "out").read_text() == "[]\n"
        assert other.poll() is None


def test_a_module_that_does_not_exist_is_an_error_of_its_process() -> None:
    process = warm_process("no_such_module", stdout=PIPE, stderr=PIPE)
    _, errors = process.communicate()
    assert process.returncode == 1 and "no_such_module" in errors
