"""A submission's code in the checker's own process, on systems where no process can be forked.

It is for students who check their own folder. Nothing limits or isolates the code, which can change the
verdict.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from hotline_course import serve_p4, serve_python
from hotline_course.channel import Answer
from hotline_course.errors import SubmissionError, describe
from hotline_course.text import printable

NO_FORK = "this system has no os.fork"


def can_fork() -> bool:
    return hasattr(os, "fork")


class SubmissionInProcess(AbstractContextManager["SubmissionInProcess"]):
    """Serves the requests that `SubmissionProcess` serves, without a process."""

    not_isolated = NO_FORK

    def __init__(self, kind: str, main: Path) -> None:
        self._answer: Answer = (
            serve_p4.make_local_answer(main) if kind == "p4" else serve_python.make_answer(main)
        )

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: there is no process to end."""

    # `Any`: a value of JSON, which the caller checks.
    def call(self, do: str, **values: object) -> Mapping[str, Any]:
        """Return the answer to a request, as JSON has it; raise `SubmissionError` for an error."""
        try:
            answer: Mapping[str, Any] = json.loads(json.dumps(self._answer({"do": do, **values})))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a submission's code raises
            raise SubmissionError(printable(describe(error))) from None
        return answer
