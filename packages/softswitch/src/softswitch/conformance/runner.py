"""A run of one STF file (test vectors) on one program and one target."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from softswitch.conformance.client import pipeline_config
from softswitch.conformance.driver import StfDriver
from softswitch.conformance.errors import Unsupported
from softswitch.conformance.names import StfNames
from softswitch.conformance.parser import read_vectors
from softswitch.conformance.targets import Opener
from softswitch.errors import SwitchError

_LOG = logging.getLogger("conformance")


class Outcome(Enum):
    PASS = "pass"
    FAIL = "fail"
    REFUSED = "refused"  # the target does not support the program or a statement


class Verdict(NamedTuple):
    program: Path
    vectors: Path
    outcome: Outcome
    reason: str = ""


def run(
    opener: Opener,
    program: Path,
    vectors: Path,
    folders: Sequence[Path] = (),
    definitions: Sequence[tuple[str, str]] = (),
) -> Verdict:
    """Run a file; every error becomes the verdict, so that the caller can run the next file.

    `folders` are searched for what P4 source includes, and `definitions` are its macros.
    """
    try:
        statements = read_vectors(vectors)
        config = pipeline_config(program, folders, definitions)
        with opener(config) as target:
            StfDriver(target, StfNames(config.p4info)).run(statements)
    except Unsupported as error:
        return Verdict(program, vectors, Outcome.REFUSED, str(error))
    except SwitchError as error:
        return Verdict(program, vectors, Outcome.FAIL, str(error))
    except Exception as error:  # a bug of the target, which must not end the run of other files
        _LOG.debug("%s: the target crashed", vectors, exc_info=True)
        text = " ".join(str(error).split())
        return Verdict(program, vectors, Outcome.FAIL, f"crash: {type(error).__name__}: {text}")
    return Verdict(program, vectors, Outcome.PASS)
