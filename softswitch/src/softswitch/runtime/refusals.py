"""What is refused, by BMv2's names (thrift_src/standard.thrift), with a line that says more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from grpc import StatusCode

from softswitch.errors import SwitchError
from softswitch.p4runtime.status import Refusal


class RuntimeRefusal(SwitchError):
    """A call that is refused: `Invalid table operation (DUPLICATE_ENTRY): ...`."""

    def __init__(self, kind: str, code: str, text: str) -> None:
        super().__init__(f"Invalid {kind} operation ({code}): {text}")
        self.code = code


TABLE = "table"
TABLE_CODES = {
    StatusCode.ALREADY_EXISTS: "DUPLICATE_ENTRY",
    StatusCode.NOT_FOUND: "BAD_MATCH_KEY",
    StatusCode.RESOURCE_EXHAUSTED: "TABLE_FULL",
    StatusCode.PERMISSION_DENIED: "IMMUTABLE_TABLE_ENTRIES",
}


def refuse(kind: str, refusal: Refusal, codes: Mapping[StatusCode, str] = {}) -> NoReturn:
    """Raise what P4Runtime refuses as BMv2 has it."""
    raise RuntimeRefusal(kind, codes.get(refusal.code, "ERROR"), str(refusal)) from None
