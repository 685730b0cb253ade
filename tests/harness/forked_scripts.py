"""Scripts that push, meet an error, and end: each a fork of one process, which has loaded the machine code.

`python -m tests.harness.forked_scripts` is that process: it reads a case a line, and writes how it ended.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import hotline
from hotline_scripts.kv import calls, worker
from switch_harness.waiting import PATIENCE_S
from tests.harness.children import child

ROWS, PUSHES, FAULTY = 40, 9, 4
"""Rows of the table, pushes of a script (each of 1.0 to all rows), and the number of the faulty push."""
F32 = np.float32

KINDS: dict[str, Callable[[], BaseException]] = {
    "error": lambda: LookupError("planted"),
    "exit with 0": SystemExit,
    "exit with 3": lambda: SystemExit(3),
    "Ctrl-C": KeyboardInterrupt,
    "memory": lambda: MemoryError("planted"),
    "generator": GeneratorExit,
}
PLACES = (
    "nowhere", "callback", "check", "conversion", "store", "send", "receive", "recorder", "thread", "leave",
)  # fmt: skip
ENDS = ("wait(k)", "wait(last)", "barrier", "close", "with", "plain", "sys.exit", "swallowed")


class Case(NamedTuple):
    kind: str
    place: str
    end: str


class Ending(NamedTuple):
    status: int | None
    """Exit status, or None if the script hangs."""
    returned: int
    """Number of pushes that have returned a number."""
    errors: str


class ScriptForker:
    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process, self._folder = process, folder

    def run(self, case: Case, while_it_runs: Callable[[], None] = lambda: None) -> Ending:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([*case, str(self._folder)]) + "\n")
        self._process.stdin.flush()
        while_it_runs()
        status = json.loads(self._process.stdout.readline())
        returned = len((self._folder / "returned").read_bytes())
        return Ending(status, returned, (self._folder / "errors").read_text())


@contextmanager
def script_forker(folder: Path, rendezvous: Path) -> Iterator[ScriptForker]:
    command, pipe = [sys.executable, "-m", "tests.harness.forked_scripts"], subprocess.PIPE
    environment = {**os.environ, "HOTLINE_CONNECT": str(rendezvous)}
    with child(command, stdin=pipe, stdout=pipe, env=environment) as process:
        yield ScriptForker(process, folder)


def _fork_cases() -> tuple[Case, Path] | None:
    """Fork a process for each line; return the case in that process, and None in this one at the end."""
    for line in iter(sys.stdin.readline, ""):
        *words, folder = json.loads(line)
        if (pid := os.fork()) == 0:
            return Case(*words), Path(folder)
        print(json.dumps(_wait(pid)), flush=True)
    return None


def _wait(pid: int) -> int | None:
    pidfd = os.pidfd_open(pid)
    try:
        has_ended = select.select([pidfd], [], [], PATIENCE_S / 2)[0]
        if not has_ended:
            os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return status if has_ended else None
    finally:
        os.close(pidfd)


def _make_worker() -> hotline.Worker:
    return hotline.Worker({"rows": (ROWS, 1)}, scale=1.0)


def _fail_at(target: Any, name: str, call: int, error: BaseException) -> None:
    """Let call number `call` of `target.name`, from 0, raise the error; other calls do what they did."""
    function, calls = getattr(target, name), iter(range(10**9))

    def fail(*arguments: Any, **more: Any) -> Any:
        if next(calls) == call:
            raise error
        return function(*arguments, **more)

    setattr(target, name, fail)


def _plant(kv: hotline.Worker, place: str, error: BaseException) -> None:
    open_engine = kv._open_engine
    targets: dict[str, tuple[Any, str]] = {
        "check": (worker, "check_values"),
        "conversion": (worker, "to_fixed"),
        "send": (open_engine.client, "push"),
        "receive": (open_engine, "_complete_rpcs"),
        "recorder": (open_engine.recorder, "end_push"),
    }
    if place in targets:
        _fail_at(*targets[place], FAULTY, error)
    elif place == "store":
        _fail_at(calls, "from_fixed", 0, error)
    elif place == "leave":
        _fail_at(kv, "_warn_of_saturation", 0, error)


def _raise_in_thread(thread: int | None, error: BaseException) -> None:
    assert thread is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(type(error)))


def _push_all(kv: hotline.Worker, place: str, error: BaseException, returned: int) -> None:
    keys, values, out = np.arange(ROWS), np.ones(ROWS, F32), np.zeros(ROWS, F32)

    def fail() -> None:
        raise error

    for step in range(PUSHES):
        is_faulty = step == FAULTY
        if place == "store" and is_faulty:
            kv.push_pull(keys, values, out)
        else:
            kv.push(keys, values, callback=fail if place == "callback" and is_faulty else None)
        os.write(returned, b".")
        if place == "thread" and is_faulty:
            kv.wait(step)
            _raise_in_thread(kv._open_engine._thread.ident, error)


def run_case(case: Case, returned: int) -> None:
    error, kv = KINDS[case.kind](), _make_worker()
    _plant(kv, case.place, error)
    if case.end == "with":
        with kv:
            _push_all(kv, case.place, error, returned)
        return
    if case.end == "swallowed":
        try:
            _push_all(kv, case.place, error, returned)
            kv.wait(PUSHES - 1)
        except BaseException:
            time.sleep(0)
        return
    _push_all(kv, case.place, error, returned)
    if case.end == "wait(k)":
        kv.wait(FAULTY)
    elif case.end == "wait(last)":
        kv.wait(PUSHES - 1)
    elif case.end == "barrier":
        kv.barrier()
    elif case.end == "close":
        kv.close()
    elif case.end == "sys.exit":
        sys.exit(0)


def _main() -> None:
    with _make_worker() as kv:  # load the machine code before the first fork
        out = np.zeros(ROWS, F32)
        kv.wait(kv.push_pull(np.arange(ROWS), out, out))
    gc.freeze()  # or each fork would search these objects for garbage at its end, and copy their memory
    forked = _fork_cases()
    if forked is None:
        return
    case, folder = forked
    returned = os.open(folder / "returned", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    errors = os.open(folder / "errors", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(errors, sys.stderr.fileno())
    worker.EXIT_TIMEOUT_S = PATIENCE_S / 4
    run_case(case, returned)


if __name__ == "__main__":
    _main()
