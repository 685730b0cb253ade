"""Numba's compiler for functions that only compiled functions call: LLVM IR without machine code.

Numba optimises each function with all its callees and emits machine code for it, though only entry points
are called from Python. Skipping this for callees reduces the switch's compile time to some 60 %. This module
uses numba's classes beyond `CompilerBase`, in the form that they have from numba 0.63 to 0.68.
"""

from __future__ import annotations

from typing import Any

import numba
import numba.core as core
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

from nativekit.llvm import Function, Module

_numba: Module = numba
_core: Module = core
_register_pass: Function = register_pass


class _CalleeLibrary(JITCodeLibrary):
    """A function's LLVM IR, which is linked into its callers."""

    # Callers optimise the code and make machine code of it, so neither is done here.

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


@_register_pass(mutates_CFG=True, analysis_only=False)
class _CalleeLowering(NativeLowering):
    _name = "callee_lowering"

    def run_pass(self, state: Any) -> bool:
        make_library: Function = _CalleeLibrary  # has no type hints
        lower: Function = super().run_pass
        state.library = make_library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        # For the lowering only: with `no_compile` numba makes no machine code.
        flags = state.flags
        state.flags = flags.copy()
        state.flags.no_compile = True
        lower(state)
        state.flags = flags
        lowered = state["cr"]
        descriptor = lowered.fndesc
        # The dispatcher requires a Python function object; the address of its machine code is 0.
        function = _numba._dynfunc.make_function(
            descriptor.lookup_module(), descriptor.qualname, "", 0, lowered.env, (state.library,)
        )
        state.targetctx.insert_user_function(function, descriptor, [state.library])
        state.reload_init.extend(state.library._reload_init)
        state["cr"] = lowered._replace(cfunc=function)
        return True


class CalleeCompiler(CompilerBase):
    def define_pipelines(self) -> list[Any]:
        standard = _core.compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes = _core.compiler_machinery.PassManager("callee")
        for pass_class, description in standard.passes:
            passes.add_pass(_CalleeLowering if pass_class is NativeLowering else pass_class, description)
        passes.finalize()
        return [passes]
