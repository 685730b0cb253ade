"""Cached results: a file that differs in a bit is not read, unless it has the same result."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import JsonValue

from foundation.cached import Cached, read_cached, with_checksum
from switch_harness.damage import DAMAGES, damage


class CachedNumbers(Cached):
    numbers: dict[str, JsonValue]


RESULT = with_checksum(
    CachedNumbers(fingerprint="abc", numbers={"a": 1.5e-7, "b": [1, -2.0, True, None], "c": "é"}),
    Path("result.json"),
)


def test_no_flipped_bit_changes_a_result(tmp_path: Path) -> None:
    file, text = tmp_path / "result.json", RESULT.model_dump_json().encode()
    file.write_bytes(text)
    assert read_cached(file, "abc", CachedNumbers) == RESULT
    assert read_cached(file, "other", CachedNumbers) is None
    for position in range(len(text)):
        flipped = bytearray(text)
        flipped[position] ^= 1 << position % 8
        file.write_bytes(flipped)
        assert read_cached(file, "abc", CachedNumbers) in (None, RESULT), position


@pytest.mark.parametrize("way", DAMAGES)
def test_a_damaged_result_is_not_read(tmp_path: Path, way: str) -> None:
    file = tmp_path / "result.json"
    file.write_text(RESULT.model_dump_json())
    other = with_checksum(CachedNumbers(fingerprint="abc", numbers={}), tmp_path / "other.json")
    damage(file, way, other.model_dump_json().encode())
    assert read_cached(file, "abc", CachedNumbers) is None


def test_a_result_without_a_checksum_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text(RESULT.model_copy(update={"checksum": ""}).model_dump_json())
    assert read_cached(file, "abc", CachedNumbers) is None
