"""Compile the code that a run needs, in parallel, with progress: `.venv/bin/python tools/scripts/compile.py`.

Each part is compiled in a separate process, and numba caches its machine code on disk. Parts that no default
run needs (packages, designs other than the default) are compiled when they are first used; `compile.py test`
compiles those that the tests use, which otherwise each of their processes might compile. A package's part is
its module `warm`, if it has one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from threading import Lock

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from foundation.designs.programs import P4Error, refresh_all
from foundation.text import pluralize

_REFRESH_S = 0.25
_LINE_INTERVAL_S = 15.0  # between lines of progress where there is no terminal
_INTERRUPTED = 130  # exit code after Ctrl-C: 128 + SIGINT


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    statement: str
    seconds: float  # typical compile time


_PROGRAMS = """
from foundation.designs.registry import DEFAULT, design
from softswitch.set_up import compile_programs
designs = [design(name) for name in (DEFAULT, "none")]
compile_programs((each.program, each.p4info) for each in designs)
"""
PARTS = (
    Part("simulator", "from hotline_simulator.warm import warm; warm()", 27),
    Part("programs", _PROGRAMS, 18),
    Part("switch", "from softswitch.warm import warm_all; warm_all()", 16),
    Part(
        "workers", "from hotline_agents.warm import warm_model, warm_worker; warm_worker(); warm_model()", 12
    ),
    Part("servers", "from hotline_agents.warm import warm_ps; warm_ps()", 8),
)
"""The longest part first, which keeps two cores busy to the end."""


class CompileError(Exception): ...


class _Processes:
    """The processes of parts; at its end, those that still run are killed, and no other is started."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[str]] = []
        self._has_ended = False
        self._lock = Lock()

    def __enter__(self) -> _Processes:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._has_ended = True
            for process in self._started:
                process.kill()

    def start(self, command: Sequence[str]) -> subprocess.Popen[str]:
        """Start a process whose output is one text; raises `CompileError` after the end."""
        with self._lock:
            if self._has_ended:
                raise CompileError("the compilation was stopped")
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            self._started.append(process)
            return process


def parts_of_tests() -> list[Part]:
    """Return parts for schedules of faults, for other designs than the default one, and for packages."""
    from foundation.designs.registry import DEFAULT, NAMES
    from hotline_simulator.faults.matrix import DESIGNS

    faults = "; from hotline_simulator.faults.matrix import warm_faults; warm_faults({0!r})"
    simulated = "from hotline_simulator.warm import warm; warm({0!r})"
    driven = "from hotline_agents.warm import warm_driven_ps; warm_driven_ps({0!r})"
    others = [name for name in NAMES if name != DEFAULT]
    return [
        Part(f"simulator {DEFAULT}", (simulated + faults).format(DEFAULT), 20),
        *(
            Part(f"simulator {name}", (simulated + faults * (name in DESIGNS)).format(name), 30)
            for name in others
        ),
        *(
            Part(f"hosts {name}", f"from hotline_agents.warm import warm; warm({name!r})", 12)
            for name in others
        ),
        *(Part(name, f"from {name}.warm import warm; warm()", 12) for name in packages_to_compile()),
        *(Part(f"driven PS {name}", driven.format(name), 8) for name in DESIGNS),
    ]


def packages_to_compile() -> list[str]:
    """Return installed packages without parts here whose module `warm` compiles what they run."""
    groups = ("hotline.api", "hotline.commands")
    names = {each.module.partition(".")[0] for group in groups for each in entry_points(group=group)}
    names -= {"hotline_agents", "hotline_simulator"}
    return sorted(name for name in names if find_spec(f"{name}.warm") is not None)


def compile_all(
    parts: Sequence[Part],
    console: Console,
    processes: int | None = None,
    line_interval_s: float = _LINE_INTERVAL_S,
) -> None:
    """Compile the parts, by default on all cores; raise `CompileError` for the first part that fails.

    After an error or Ctrl-C no part goes on.
    """
    columns = (TextColumn("  {task.description:<10}"), BarColumn(bar_width=40), TimeElapsedColumn())
    with (
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
        ThreadPoolExecutor(processes or os.cpu_count()) as pool,
        _Processes() as started,
    ):
        parts_by_future = {
            pool.submit(_compile, part, started, progress, task): part
            for part, task in (
                (part, progress.add_task(part.name, start=False, total=part.seconds)) for part in parts
            )
        }
        _report_completion(parts_by_future, console, line_interval_s)


def _report_completion(
    parts_by_future: dict[Future[float], Part], console: Console, line_interval_s: float
) -> None:
    """Wait for all parts; without a terminal, print a line for each that is done, and when one takes long."""
    remaining, start_s = set(parts_by_future), time.monotonic()
    while remaining:
        done, remaining = wait(remaining, line_interval_s, return_when="FIRST_COMPLETED")
        if not done and not console.is_terminal:
            names = ", ".join(parts_by_future[each].name for each in parts_by_future if each.running())
            console.print(f"  {time.monotonic() - start_s:.0f} s: compiling {names}")
        for future in done:
            elapsed = future.result()
            if not console.is_terminal:
                console.print(f"  {parts_by_future[future].name} ({elapsed:.0f} s)")


def _compile(part: Part, started: _Processes, progress: Progress, task: TaskID) -> float:
    start_s = time.monotonic()
    process = started.start([sys.executable, "-c", part.statement])
    progress.start_task(task)
    while True:
        try:
            output, _ = process.communicate(timeout=_REFRESH_S)
            break
        except subprocess.TimeoutExpired:
            elapsed = time.monotonic() - start_s
            # The bar approaches its end, and reaches it when the process has ended.
            progress.update(task, completed=part.seconds * elapsed / (elapsed + part.seconds / 2))
    if process.returncode:
        raise CompileError(f"{part.name}: {output.strip()}")
    progress.update(task, completed=part.seconds)
    return time.monotonic() - start_s


def main(arguments: Sequence[str]) -> int:
    console = Console(stderr=True, highlight=False)
    try:
        console.print(f"  {pluralize(refresh_all(), 'P4 program')} compiled")
        compile_all(parts_of_tests() if "test" in arguments else PARTS, console)
    except P4Error as error:
        console.print(f"setup: {error}", markup=False)
        return 1
    except CompileError as error:
        console.print(f"setup: cannot compile {error}", markup=False)
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
