"""Errors of calls, with BMv2's codes (thrift_src/standard.thrift)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from grpc import StatusCode

from softswitch.errors import SwitchError
from softswitch.p4runtime.status import Refusal


class RuntimeRefusal(SwitchError):
    """An error with one of BMv2's codes: `Invalid table operation (DUPLICATE_ENTRY): ...`."""

    def __init__(self, kind: str, code: str, text: str) -> None:
        super().__init__(f"Invalid {kind} operation ({code}): {text}")
        self.code, self.text = code, text


TABLE = "table"
TABLE_CODES = {
    StatusCode.ALREADY_EXISTS: "DUPLICATE_ENTRY",
    StatusCode.NOT_FOUND: "BAD_MATCH_KEY",
    StatusCode.RESOURCE_EXHAUSTED: "TABLE_FULL",
    StatusCode.PERMISSION_DENIED: "IMMUTABLE_TABLE_ENTRIES",
}


def refuse(kind: str, refusal: Refusal, codes: Mapping[StatusCode, str] = {}) -> NoReturn:
    """Raise P4Runtime's refusal as an error with BMv2's code for its status, or `ERROR` if there is none."""
    raise RuntimeRefusal(kind, codes.get(refusal.code, "ERROR"), str(refusal)) from None
