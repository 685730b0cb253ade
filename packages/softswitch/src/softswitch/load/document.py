"""Read a BMv2 JSON of any age into one form, of which programs and the names in commands are made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from softswitch.errors import NESTED_TOO_DEEPLY, ProgramError
from softswitch.load.json_text import parse_json
from softswitch.load.legacy import modernize
from softswitch.load.program_shape import check_program
from softswitch.load.schema import check_document
from softswitch.load.scope import Json


def read_document(data: bytes | str) -> Json:
    """Return the JSON in the form that p4c prints now; raise `ProgramError` if BMv2 cannot read it."""
    document = parse_json(data)
    if not isinstance(document, dict) or "header_types" not in document or "pipelines" not in document:
        raise ProgramError("not a BMv2 program: `header_types` and `pipelines` expected at the top")
    with malformed_refused():
        check_document(document, check_program)
        modernize(document)
    return document


@contextmanager
def malformed_refused() -> Iterator[None]:
    """Raise `ProgramError` for what a malformed document makes of code that expects p4c's form."""
    try:
        yield
    except RecursionError:
        raise ProgramError(f"the program cannot be loaded: {NESTED_TOO_DEEPLY}") from None
    except (KeyError, IndexError, TypeError, ValueError, StopIteration, AssertionError) as error:
        raise ProgramError(f"not a BMv2 program as p4c prints it: {type(error).__name__} {error}") from error
