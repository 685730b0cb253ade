"""`make shell`, in which tests type as a user does."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from foundation.checkout import ROOT
from switch_harness.namespaces import on_the_machines_network
from switch_harness.waiting import PATIENCE_S
from tests.harness.make import outer_environment

SHELL = str(ROOT / "tools" / "scripts" / "shell")
PROMPT = "P4Runtime sh >>> "


def install() -> None:
    """Install p4runtime-shell; `make test` has done it already."""
    subprocess.run([*on_the_machines_network(), SHELL, "--install"], check=True)


def type_into(command: str, session: str, *, folder: Path = ROOT, **variables: str) -> list[str]:
    """Run a command that opens the shell, type a session, and return the lines that it prints."""
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        input=session,
        env=outer_environment() | variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return [line.removeprefix(PROMPT) for line in done.stdout.splitlines()]


@dataclass
class OpenShell:
    process: subprocess.Popen[str]
    typed: int = 0

    def type(self, lines: str) -> list[str]:
        """Type lines, wait until they have run, and return what they print."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.typed += 1
        mark = f"ran {self.typed}"
        self.process.stdin.write(f"{lines}\nprint({mark!r}, flush=True)\n")
        self.process.stdin.flush()
        printed: list[str] = []
        for line in self.process.stdout:
            text = line.replace(PROMPT.strip(), "").strip()
            if text == mark:
                return printed
            printed += [text] if text else []
        raise AssertionError(printed)


@contextmanager
def open_shell(command: str, *, folder: Path) -> Iterator[OpenShell]:
    """Run a command that opens the shell, and end it by `exit()`."""
    with subprocess.Popen(
        ["sh", "-c", command],
        cwd=folder,
        env=outer_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            shell = OpenShell(process)
            shell.type("")  # what it prints when it starts
            yield shell
            process.communicate("exit()\n", timeout=PATIENCE_S)
        finally:
            process.kill()
    assert process.returncode == 0
