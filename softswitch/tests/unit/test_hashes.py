"""Hash algorithms: published check values, and machine code that computes the same."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import llvmlite.binding as binding
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llvmlite import ir as llvm

from softswitch.codegen.hashes import hash_function
from softswitch.hashing import ALGORITHMS
from softswitch.llvmir import I64, POINTER

CHECK = {
    # of "123456789"; CRCs as in the catalogue of parametrised CRC algorithms, with equal init and xorout
    "crc16": 0xBB3D,
    "crc32": 0xCBF43926,
    "crcCCITT": 0x29B1,
    "crc8_custom": 0xF4,
    "crc64_custom": 0x46A5A9388A5BEFFE,
    "identity": int.from_bytes(b"12345678", "big"),
    "xxh64": 0x8CB841DB40E6AE83,
    "csum16": 0xF62A,
}


@pytest.mark.parametrize("name", CHECK)
def test_check_values(name: str) -> None:
    assert ALGORITHMS[name](b"123456789") == CHECK[name]


@pytest.fixture(scope="module")
def machine_code() -> dict[str, Callable[[bytes, int], int]]:
    """Compile each algorithm as a function of bytes and their number."""
    module = llvm.Module("hashes")
    for name, algorithm in ALGORITHMS.items():
        kind = llvm.FunctionType(I64, [POINTER, I64])
        function = llvm.Function(module, kind, f"call_{name}")
        b = llvm.IRBuilder(function.append_basic_block())
        b.ret(b.call(hash_function(module, algorithm), function.args))
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(str(module)), target)
    engine.finalize_object()
    prototype = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_char_p, ctypes.c_uint64)
    made = {name: prototype(engine.get_function_address(f"call_{name}")) for name in ALGORITHMS}
    return {name: _bound(function, engine) for name, function in made.items()}


def _bound(function: Callable[[bytes, int], int], engine: binding.ExecutionEngine) -> Callable[..., int]:
    """Return the function with a reference to its engine, which holds the code."""
    return lambda data, size: function(data, size) if engine else 0


@given(data=st.binary(max_size=200))
def test_machine_code_is_the_same(machine_code: dict[str, Callable[[bytes, int], int]], data: bytes) -> None:
    for name, algorithm in ALGORITHMS.items():
        assert machine_code[name](data, len(data)) == algorithm(data), name
