"""What the BPF target emits where, and how a failure of LLVM is reported."""

from __future__ import annotations

import llvmlite.binding as binding
import pytest
from llvmlite import ir as llvm

from softswitch.kernel.assembler import compile_module
from softswitch.kernel.instructions import AssemblyError
from softswitch.kernel.target import Bpf
from softswitch.llvmir import I64, integer
from softswitch.target import Module
from switch_harness.wording import mentions


def test_a_variable_reserved_from_the_entry_block_stands_before_its_terminator() -> None:
    """The first one of a function also emits the address of the CPU's area."""
    target = Bpf(reads_clock=False)
    module = Module("m", target)
    function = llvm.Function(module, llvm.FunctionType(I64, [llvm.PointerType()]), "f")
    b = llvm.IRBuilder(function.append_basic_block("entry"))
    after = b.append_basic_block("after")
    b.branch(after)
    b.position_at_end(after)
    with b.goto_entry_block():
        variable = target.reserve(b, I64)
        b.store(integer(64, 1), variable)
    b.ret(b.load(variable, typ=I64))
    entry = function.entry_basic_block
    assert entry.instructions[-1] is entry.terminator
    binding.parse_assembly(str(module)).verify()


def test_a_module_that_does_not_parse_is_refused_with_llvms_reason() -> None:
    with pytest.raises(AssemblyError, match=mentions("RuntimeError", "error")) as caught:
        compile_module("define i64 @f(", 0)
    assert "Traceback" not in str(caught.value)
