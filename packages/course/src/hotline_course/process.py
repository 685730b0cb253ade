"""A submission's child process, as the checker sees it: it gives values, and ends at a limit."""

from __future__ import annotations

import os
import select
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from hotline_course.channel import ChannelError, Message, receive, send
from hotline_course.errors import CannotCheck, SubmissionError
from hotline_course.limits import DEFAULT, Limits
from hotline_course.spawner import SPAWNER
from hotline_course.text import printable
from softswitch.progress import IdleLimit, read_activity

_START_IDLE_S = 60.0
"""Limit on the time for which the process may sleep before it is ready, while only trusted code runs."""
INTERRUPTED = threading.Event()
"""Set when the user has interrupted the checker: all processes are ended then."""


class SubmissionProcess(AbstractContextManager["SubmissionProcess"]):
    """A child process that serves the P4 program (`kind` p4) or the Python module (python) of a submission.

    `files` are the submission's files by name, of which `main` is served; the `hidden` folders are empty for
    the process. Calls raise `SubmissionError` if the submission is at fault, and all do after its process has
    ended. Raises `CannotCheck` if the process could not be started.
    """

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
        self._outer = 0
        self._end_reason = ""
        self._folder = tempfile.TemporaryDirectory(prefix="hotline-check-")
        os.chmod(self._folder.name, 0o777)  # where root checks, another user runs the child
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        try:
            SPAWNER.spawn(requests, answers)
        finally:
            os.close(requests)
            os.close(answers)
        self.not_isolated = self._begin({
            "kind": kind, "main": main, "folder": self._folder.name, "hidden": hideable(hidden),
            "files": {name: data.hex() for name, data in files.items()}, "limits": limits._asdict(),
        })  # fmt: skip
        """Why the process has only limits and no namespaces; "" if it has both."""

    def _begin(self, order: Message) -> str:
        try:
            send(self._requests, order)
            self._outer = int(self._receive(_START_IDLE_S)["outer"])
            # Until this answer only trusted code has run: an end is no fault of the submission.
            answer = self._receive(_START_IDLE_S)
            if "not_isolated" in answer:
                return str(answer["not_isolated"])
            reason = str(answer.get("cannot", answer))
        except (SubmissionError, ChannelError, KeyError, OSError) as error:
            reason = SPAWNER.why_ended() or str(error)
        self.close()
        raise CannotCheck(f"the child process could not be started: {reason}")

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process: the outer one does so, and closes its pipe, when the pipe of requests closes."""
        if self._requests < 0:
            return
        os.close(self._requests)
        self._requests = -1
        idle = IdleLimit(self._limits.idle_s)
        while not idle.is_exceeded:
            if not select.select([self._answers], [], [], idle.look_s)[0]:
                idle.look([read_activity(self._outer)])
            elif not os.read(self._answers, 1 << 16):
                break
        os.close(self._answers)
        with suppress(OSError):
            self._folder.cleanup()

    # `Any`: a value of JSON, which the caller checks.
    def call(self, do: str, **values: object) -> Mapping[str, Any]:
        """Return the answer to a request; raise `SubmissionError` for an error, or if the process ends."""
        if self._end_reason:
            raise SubmissionError(self._end_reason)
        try:
            send(self._requests, {"do": do, **values})
            answer = self._receive(self._limits.idle_s)
        except BrokenPipeError:
            raise self._end("has closed its pipe") from None
        except ChannelError as error:
            raise self._end(f"sent no valid answer: {error}") from None
        if "ended" in answer:
            raise self._end(self._describe_end(answer["ended"]))
        if "error" in answer:
            raise SubmissionError(printable(str(answer["error"])))
        return answer

    def _receive(self, idle_s: float) -> Message:
        return receive(self._answers, lambda: self._wait(idle_s))

    def _wait(self, idle_s: float) -> None:
        """Wait until the process writes; end it once it has slept for too long, or used too much CPU time.

        Other processes may take the CPUs for any time, which counts for neither limit.
        """
        idle = IdleLimit(idle_s)
        while not select.select([self._answers], [], [], idle.look_s)[0]:
            if INTERRUPTED.is_set():
                raise self._end("was ended by the user")
            activity = read_activity(self._outer or os.getpid())
            idle.look([activity] if self._outer else [])
            if idle.is_exceeded:
                raise self._end(f"slept for {idle_s:g} s instead of giving an answer")
            if (
                self._outer and activity.cpu_s > 2 * self._limits.cpu_s
            ):  # the kernel ends it before, if it limits
                raise self._end(f"used more than {self._limits.cpu_s} s of CPU time")

    def _end(self, text: str) -> SubmissionError:
        self._end_reason = f"{self._main}: its process {text}"
        self.close()
        return SubmissionError(self._end_reason)

    def _describe_end(self, status: object) -> str:
        if status in (-signal.SIGKILL, -signal.SIGXCPU):
            return f"was ended by the system: it may use {self._limits.cpu_s} s of CPU time"
        if isinstance(status, int) and status < 0:
            return f"was ended by signal {-status}"
        return f"ended with exit status {status!r:.9} instead of giving an answer"


def hideable(folders: Sequence[Path]) -> list[str]:
    """Return the folders that can become empty: those in which Python itself is not."""
    needed = [
        Path(each).resolve() for each in (*sys.path, sys.prefix, sys.base_prefix, tempfile.gettempdir())
    ]
    return [
        str(each)
        for each in {folder.resolve() for folder in folders}
        if each.is_dir() and not any(path.is_relative_to(each) for path in needed)
    ]
