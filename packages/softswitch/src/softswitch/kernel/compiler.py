"""Compile LLVM IR for BPF in a separate process (`assembler`): `python -m softswitch.kernel.compiler`."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

CPU = "v3"
FEATURES = "+allows-misaligned-mem-access"
STACK_BYTES = 1 << 15
"""Size of the stack that LLVM may use: far more than BPF has (`spills`)."""
VERSION = f"{llvmlite.__version__} {hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]}"
"""Object code depends on its source and on this: LLVM's version, and the text of this module."""


def target_machine() -> llvm.TargetMachine:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple("bpfel").create_target_machine(cpu=CPU, features=FEATURES, opt=2)


def compile_object(source: str) -> bytes:
    # The first argument is the name of the program that a command line would begin with.
    llvm.set_option("softswitch", f"-bpf-stack-size={STACK_BYTES}")
    target = target_machine()
    module = llvm.parse_assembly(without_builtins(source))
    module.triple, module.data_layout = target.triple, str(target.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_unrolling = options.loop_vectorization = options.slp_vectorization = False
    pass_builder = llvm.create_pass_builder(target, options)
    pass_builder.getModulePassManager().run(module, pass_builder)
    return bytes(target.emit_object(module))


def without_builtins(source: str) -> str:
    """Return IR whose functions all have the attribute `no-builtins`, which llvmlite cannot express."""
    # LLVM would replace stores and loops by calls of memset and memcpy, which BPF does not have.
    definition = r"^(define [^{]*?)(?= section| noinline| alwaysinline|$)"
    return re.sub(definition, r'\1 "no-builtins"', source, flags=re.M)


if __name__ == "__main__":
    sys.stdout.buffer.write(compile_object(sys.stdin.read()))
