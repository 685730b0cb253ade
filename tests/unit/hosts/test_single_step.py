"""The harness that stops a child after each instruction sees each store, in the order of the machine code."""

from __future__ import annotations

import platform
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nativekit.memory import store_item_release
from nativekit.plain import plain
from switch_harness.native import uncached
from switch_harness.wording import mentions
from tests.harness import single_step
from tests.harness.single_step import (
    CannotTrace,
    Tracee,
    folder_states,
    killed_after,
    machine_states,
    source_states,
    storing_instructions,
)


def store_three(words: Any, first: int) -> None:
    store_item_release(words, 2, first)
    store_item_release(words, 0, first + 1)
    store_item_release(words, 1, first + 2)


compiled_stores: Any = uncached(store_three)


@pytest.fixture
def words(tmp_path: Path) -> Any:
    (tmp_path / "words").write_bytes(bytes(24))
    words = np.asarray(np.memmap(tmp_path / "words", dtype=np.int64, mode="r+"))
    compiled_stores(np.zeros(3, np.int64), 7)
    return words


def test_each_store_is_seen_in_its_order(tmp_path: Path, words: Any) -> None:
    path = tmp_path / "words"
    expected = [[0, 0, 0], [0, 0, 7], [8, 0, 7], [8, 9, 7]]
    states = machine_states([compiled_stores], partial(compiled_stores, words, 7), [path])
    assert [np.frombuffer(content, np.int64).tolist() for (content,) in states] == expected
    words[:] = 0
    states = source_states(partial(plain(compiled_stores), words, 7), [path])
    assert [np.frombuffer(content, np.int64).tolist() for (content,) in states] == expected


def test_a_kill_leaves_all_earlier_stores(tmp_path: Path, words: Any) -> None:
    path, call = tmp_path / "words", partial(compiled_stores, words, 7)
    stores = storing_instructions([compiled_stores], call, [path])
    assert len(stores) == 3
    for n, expected in zip(stores, ([0, 0, 7], [8, 0, 7], [8, 9, 7]), strict=True):
        words[:] = 0
        assert killed_after([compiled_stores], call, n - 1)
        before = words.tolist()
        words[:] = 0
        assert killed_after([compiled_stores], call, n)
        assert words.tolist() == expected != before
    assert not killed_after([compiled_stores], call, 10_000)


def test_a_change_by_another_function_is_noticed(tmp_path: Path, words: Any) -> None:
    def call() -> None:
        compiled_stores(words, 7)
        words[1] = 5

    with pytest.raises(AssertionError, match=mentions("function", "changed")):
        machine_states([compiled_stores], call, [tmp_path / "words"])


def test_a_folder_is_seen_after_each_system_call(tmp_path: Path) -> None:
    def call() -> None:
        (tmp_path / "a").write_bytes(b"one")
        (tmp_path / "a").rename(tmp_path / "b")

    assert list(folder_states(call, tmp_path)) == [{}, {"a": b""}, {"a": b"one"}, {"b": b"one"}]


def test_a_system_that_refuses_ptrace_fails_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(single_step, "_ptrace", refuse)
    with pytest.raises(CannotTrace, match="PTRACE_TRACEME"):
        Tracee(lambda: None)
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(CannotTrace, match=mentions("x86_64", "aarch64", "riscv64")):
        Tracee(lambda: None)
