"""A submission's child process, as the checker sees it: it gives values, and ends when a limit is exceeded."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import Any

from hotline_course.channel import ChannelError, Message, receive, send
from hotline_course.errors import CannotCheck, SubmissionError
from hotline_course.limits import DEFAULT, Limits
from hotline_course.text import printable
from softswitch.progress import IdleLimit, read_activity

_THREADS = {f"{name}_NUM_THREADS": "1" for name in ("MKL", "NUMBA", "OMP", "OPENBLAS")}


class SubmissionProcess(AbstractContextManager["SubmissionProcess"]):
    """A child process that serves the P4 program (`kind` p4) or the Python module (python) of a submission.

    `files` are the submission's files by name, of which `main` is served. Calls raise `SubmissionError` if the
    submission is at fault; after its process has ended, they all do. The first raises `CannotCheck` if the
    process could not be made.
    """

    not_isolated = ""
    """Why the process has only limits and no namespaces; "" if it has both."""

    def __init__(
        self,
        kind: str,
        main: str,
        files: Mapping[str, bytes],
        *,
        hidden: Sequence[Path] = (),
        limits: Limits = DEFAULT,
    ) -> None:
        self._main, self._limits = main, limits
        self._pid = 0
        self._end_reason = ""
        self._stack = ExitStack()
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="hotline-check-"))
        os.chmod(folder, 0o777)  # the child is nobody's where root checks
        self._start(folder)
        order = {
            "kind": kind, "main": main, "folder": folder, "hidden": hideable(hidden),
            "files": {name: data.hex() for name, data in files.items()},
            "limits": [limits.cpu_s, limits.idle_s, limits.memory_mb, limits.file_kb, limits.open_files],
        }  # fmt: skip
        self._finish_start(order)

    def _start(self, folder: str) -> None:
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        self._stack.callback(self._close_pipes)
        command = [sys.executable, "-m", "hotline_course.child", str(requests), str(answers)]
        environment = {
            "PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", **_THREADS,
            "PYTHONPATH": os.pathsep.join(os.path.abspath(each) for each in sys.path if each),
        }  # fmt: skip
        self._process = subprocess.Popen(
            command, env=environment, cwd="/", pass_fds=(requests, answers), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        os.close(requests)
        os.close(answers)

    def _finish_start(self, order: Message) -> None:
        try:
            send(self._requests, order)
            self._pid = int(self._receive()["pid"])
            # Only trusted code has run until this answer, and an end is no fault of the submission.
            self.not_isolated = str(self._receive()["not_isolated"])
        except (SubmissionError, ChannelError, OSError, KeyError, ValueError) as error:
            self._kill()
            assert self._process.stderr is not None
            lines = self._process.stderr.read().decode(errors="replace").strip().splitlines() or [str(error)]
            self.close()
            raise CannotCheck(f"the child process could not be started: {lines[-1]}") from None

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._kill()
        self._stack.close()

    # `Any`: a value of JSON, which the caller checks.
    def call(self, do: str, **values: object) -> Mapping[str, Any]:
        """Send a request and return its answer; raise `SubmissionError` for an error, or if the process ends."""
        if self._end_reason:
            raise SubmissionError(self._end_reason)
        try:
            send(self._requests, {"do": do, **values})
            answer = self._receive()
        except BrokenPipeError:
            raise self._ended(self._describe_end()) from None
        except ChannelError as error:
            text = self._describe_end() if str(error) == "closed" else f"sent no valid answer: {error}"
            raise self._ended(text) from None
        if "error" in answer:
            raise SubmissionError(printable(str(answer["error"])))
        return answer

    def _receive(self) -> Message:
        return receive(self._answers, self._wait)

    def _wait(self) -> None:
        """Wait until the process writes; end it once it has slept for too long, or used too much CPU time.

        Another process may take the CPU for any time, which counts for neither limit.
        """
        idle = IdleLimit(self._limits.idle_s)
        while not select.select([self._answers], [], [], idle.look_s)[0]:
            activity = read_activity(self._process.pid)
            idle.look([activity])
            if idle.is_exceeded:
                raise self._ended(f"slept for {self._limits.idle_s:g} s instead of giving an answer")
            if activity.cpu_s > 2 * self._limits.cpu_s:  # the kernel ends it before, if it has limits
                raise self._ended(f"used more than {self._limits.cpu_s} s of CPU time")

    def _ended(self, text: str) -> SubmissionError:
        self._kill()
        self._end_reason = f"{self._main}: its process {text}"
        return SubmissionError(self._end_reason)

    def _describe_end(self) -> str:
        """Return how the process has ended, which is known soon after it has closed its pipe."""
        idle = IdleLimit(self._limits.idle_s)
        while self._process.poll() is None and not idle.is_exceeded:
            select.select([], [], [], idle.look_s)
            idle.look([read_activity(self._process.pid)])
        match self._process.poll():
            case None:
                return "closed its pipe instead of giving an answer"
            case status if status == 256 - signal.SIGKILL:
                return f"was ended by the system: it may use {self._limits.cpu_s} s of CPU time"
            case status if status > 128:
                return f"was ended by signal {256 - status}"
            case status:
                return f"ended with exit status {status} instead of giving an answer"

    def _kill(self) -> None:
        # The process inside comes first: it is not reaped before the process outside waits for it.
        for pid in filter(None, (self._pid, self._process.pid)):
            with suppress(ProcessLookupError, PermissionError):
                if self._process.poll() is None:
                    os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def _close_pipes(self) -> None:
        os.close(self._requests)
        os.close(self._answers)
        if self._process.stderr is not None:
            self._process.stderr.close()


def hideable(folders: Sequence[Path]) -> list[str]:
    """Return the folders that can become empty: those in which Python itself is not."""
    needed = [Path(each).resolve() for each in (*sys.path, sys.prefix, sys.base_prefix, tempfile.gettempdir())]
    return [
        str(each)
        for each in {folder.resolve() for folder in folders}
        if each.is_dir() and not any(path.is_relative_to(each) for path in needed)
    ]
