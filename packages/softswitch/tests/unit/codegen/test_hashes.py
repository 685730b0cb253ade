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
    # Of "123456789"; CRCs as in the catalogue of parametrised CRC algorithms, with equal init and xorout.
    "crc16": 0xBB3D,
    "crc32": 0xCBF43926,
    "crcCCITT": 0x29B1,
    "crc8_custom": 0xF4,
    "crc64_custom": 0x46A5A9388A5BEFFE,
    "identity": int.from_bytes(b"12345678", "big"),
    "xxh64": 0x8CB841DB40E6AE83,
    "csum16": 0xF62A,
    "cksum16": 0xF62A,
    "crc16_custom": 0xBB3D,
    "crc32_custom": 0xCBF43926,
    # Worked out by hand: 0x3132 ^ 0x3334 ^ 0x3536 ^ 0x3738 ^ 0x3900, 0x31323334 ^ 0x35363738 ^ 0x39000000.
    "xor16": 0x3908,
    "xor32": 0x3D04040C,
    "toeplitz": 0,
    "bmv2_hash": 0x8CB841DB40E6AE83,
    # Printed by simple_switch.cpp's `hash_ex`, compiled by itself with GCC for x86-64.
    "hash_ex": 0xAF67FB84,
}
HASH_EX = {b"": 0x5902879E, bytes.fromhex("80ff007f"): 0xAD70AB39, b"\xff": 0x7E54F6CA}


@pytest.mark.parametrize("name", CHECK)
def test_hashes_have_the_published_check_values(name: str) -> None:
    assert ALGORITHMS[name](b"123456789") == CHECK[name]


def test_each_algorithm_has_a_check_value() -> None:
    assert CHECK.keys() == ALGORITHMS.keys()


def test_bytes_of_hash_ex_are_signed() -> None:
    assert {data: ALGORITHMS["hash_ex"](data) for data in HASH_EX} == HASH_EX


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
def test_hashes_in_machine_code_equal_the_python_functions(
    machine_code: dict[str, Callable[[bytes, int], int]], data: bytes
) -> None:
    for name, algorithm in ALGORITHMS.items():
        assert machine_code[name](data, len(data)) == algorithm(data), name
