"""An atomic store of an item: its instruction in LLVM's code, its effect, and its plain form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nativekit.compile import int64
from nativekit.memory import store_item_release
from nativekit.plain import plain
from switch_harness.native import uncached

TYPES = [np.bool_, np.uint8, np.uint16, np.uint32, np.int32, np.uint64, np.int64]


def store_two(array: Any, index: int, value: int) -> int:
    store_item_release(array, index, value)
    array[0] = 1  # a plain store for comparison
    return int64(len(array))


compiled_store: Any = uncached(store_two)


@pytest.mark.parametrize("kind", TYPES)
def test_a_store_writes_exactly_one_item(kind: type[np.generic]) -> None:
    bits = 8 * np.dtype(kind).itemsize
    value = True if kind is np.bool_ else 2 ** (bits - 1) - 5
    for store in (compiled_store, plain(compiled_store)):
        array = np.zeros(6, kind)
        assert store(array, 3, value) == 6
        assert array.tolist() == [1, 0, 0, value, 0, 0]
        every_other = np.zeros(12, kind)[::2]
        store(every_other, 3, value)
        assert every_other.tolist() == [1, 0, 0, value, 0, 0]


@pytest.mark.parametrize("kind", TYPES)
def test_the_store_is_atomic_and_a_release(kind: type[np.generic]) -> None:
    array: Any = np.zeros(6, kind)
    compiled_store(array, 3, 1)
    bits = 8 * np.dtype(kind).itemsize
    texts = [
        text
        for signature, text in compiled_store.inspect_llvm().items()
        if signature[0].dtype.name == np.dtype(kind).name
    ]
    assert texts
    for text in texts:
        stores = [line for line in text.splitlines() if f"store atomic i{bits} " in line]
        assert stores and all(f"release, align {bits // 8}" in line for line in stores)
