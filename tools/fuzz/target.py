"""Fuzz targets, and the outcomes of an execution other than a result: a refusal or a finding."""

from __future__ import annotations

import atexit
import traceback
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from foundation.errors import HotlineError

ROOT = Path(__file__).parents[2]
CORPUS = Path(__file__).parent / "corpus"
MARK = b"=//="
"""Separator of the parts of an input. As there are no offsets, splitting works after mutations move parts."""
_MAX_SHOWN_CHARACTERS = 300  # of an error
_MAX_WORDS = 8
"""Number of first words that identify a refusal; a list may follow them."""


@dataclass(frozen=True, slots=True)
class Target:
    """Something that parses bytes.

    `run` parses them, and returns a value that identifies the outcome, or raises `HotlineError`. `seeds` are
    inputs that are valid, or nearly. `tokens` are words of the format, which mutations put in.
    """

    name: str
    run: Callable[[bytes], Hashable]
    sources: Sequence[str]
    """Folders and modules whose lines guide the search, as paths from the root."""
    seeds: Callable[[], Sequence[bytes]]
    tokens: Sequence[bytes] = ()

    @property
    def corpus(self) -> Path:
        return CORPUS / self.name

    def inputs(self) -> list[bytes]:
        """Return the seeds, then the corpus in the order of names."""
        return [*self.seeds(), *(file.read_bytes() for file in sorted(self.corpus.glob("*")))]


class Refusal(frozenset[str]):
    """The first words of an error message that do not repeat the input."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An input for which a target raises another exception than `HotlineError`, or an unclear message."""

    data: bytes
    error: BaseException

    @property
    def place(self) -> tuple[str, str, int]:
        """Type of the error, file and line; findings with the same place are duplicates."""
        last = traceback.extract_tb(self.error.__traceback__)[-1]
        return type(self.error).__name__, last.filename, last.lineno or 0

    def __str__(self) -> str:
        kind, file, line = self.place
        return f"{kind} at {file}:{line}: {str(self.error)[:_MAX_SHOWN_CHARACTERS]}"


def attempt(target: Target, data: bytes) -> Hashable | Finding:
    """Return the outcome of an input: a finding, a `Refusal`, or the result of `run`."""
    try:
        return target.run(data)
    except HotlineError as refusal:
        try:
            return _words(str(refusal), data)
        except AssertionError as unclear:
            return Finding(data, unclear)
    # Polars' panics are no `Exception`.
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return Finding(data, error)


def _words(text: str, data: bytes) -> Refusal:
    """Return a refusal's words that do not repeat the input; `AssertionError` if it is not one line."""
    assert text and text.isprintable(), f"a refusal must be one line of text, not {text!r}"
    lowered_data = data.lower()
    # The scratch folder has another name in each process.
    text = text.replace(str(scratch()), "")
    words = "".join(letter if letter.isalpha() else " " for letter in text).split()
    return Refusal([word for word in words if word.lower().encode() not in lowered_data][:_MAX_WORDS])


def parts(data: bytes, limit: int = 8) -> list[bytes]:
    """Return the first parts of an input, at most `limit`."""
    return data.split(MARK)[:limit]


@cache
def scratch() -> Path:
    """Return a folder of this process, for targets that read files."""
    folder = TemporaryDirectory(prefix="hotline-fuzz-")
    atexit.register(folder.cleanup)
    return Path(folder.name)
