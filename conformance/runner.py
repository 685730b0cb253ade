"""One program with one file of vectors on one target, to a verdict."""

from __future__ import annotations

import logging
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from conformance.driver import Driver
from conformance.errors import ConformanceError, Refusal
from conformance.names import Names, read_p4info
from conformance.parser import read_vectors
from softswitch.errors import SwitchError
from targets.in_process import Opener

_LOG = logging.getLogger("conformance")


class Outcome(Enum):
    """How a file of vectors ended."""

    PASS = "pass"
    FAIL = "fail"
    REFUSED = "refused"


class Verdict(NamedTuple):
    """The outcome of a file, with the reason where it did not pass."""

    program: Path
    vectors: Path
    outcome: Outcome
    reason: str = ""


def run(opener: Opener, program: Path, vectors: Path) -> Verdict:
    """Run a file; whatever goes wrong is in the verdict, so that the next file can be run."""
    try:
        _run(opener, program, vectors)
    except Refusal as refusal:
        return Verdict(program, vectors, Outcome.REFUSED, str(refusal))
    except (ConformanceError, SwitchError) as error:
        return Verdict(program, vectors, Outcome.FAIL, str(error))
    except Exception as error:  # a defect of the target, which must not end a run of hundreds
        _LOG.debug("%s: the target crashed", vectors, exc_info=True)
        text = " ".join(str(error).split())
        return Verdict(program, vectors, Outcome.FAIL, f"crash: {type(error).__name__}: {text}")
    return Verdict(program, vectors, Outcome.PASS)


def _run(opener: Opener, program: Path, vectors: Path) -> None:
    statements = read_vectors(vectors)
    p4info = read_p4info(program)
    try:
        data = program.read_bytes()
    except OSError as error:
        raise ConformanceError(f"{program}: {error.strerror}") from None
    with opener(data, p4info) as target:
        Driver(target, Names(p4info)).run(statements)
