"""Numba's compiler for functions that only compiled functions call: LLVM IR without machine code.

Numba optimises each function with all its callees and emits machine code for it, though only entry points
are called from Python. Without that, the switch's code compiles in some 60 % of the time. This uses numba's
classes beyond `CompilerBase`, in the form that they have from numba 0.61 to 0.68.
"""

from __future__ import annotations

from typing import Any, cast

from numba import _dynfunc as numba_dynfunc
from numba.core import codegen, compiler, compiler_machinery, typed_passes

from nativekit.llvm import Compiled, Module

_dynfunc: Module = numba_dynfunc
_JITCodeLibrary: type[Any] = codegen.JITCodeLibrary
_NativeLowering: type[Any] = typed_passes.NativeLowering
_CompilerBase: type[Any] = compiler.CompilerBase
_PassManager: type[Any] = compiler_machinery.PassManager
_register_pass = cast(Compiled, compiler_machinery.register_pass)


class _CalleeLibrary(_JITCodeLibrary):
    """A function's LLVM IR, which is linked into its callers."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


@_register_pass(mutates_CFG=True, analysis_only=False)
class _CalleeLowering(_NativeLowering):
    _name = "callee_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _CalleeLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        flags = state.flags
        state.flags = flags.copy()
        state.flags.no_compile = True
        super().run_pass(state)
        state.flags = flags
        lowered = state["cr"]
        described = lowered.fndesc
        # The dispatcher requires a function of Python, here without an address.
        function = _dynfunc.make_function(
            described.lookup_module(), described.qualname, "", 0, lowered.env, (state.library,)
        )
        state.targetctx.insert_user_function(function, described, [state.library])
        state.reload_init.extend(state.library._reload_init)
        state["cr"] = lowered._replace(cfunc=function)
        return True


class CalleeCompiler(_CompilerBase):
    def define_pipelines(self) -> list[Any]:
        standard = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes = _PassManager("callee")
        for each, description in standard.passes:
            passes.add_pass(_CalleeLowering if each is _NativeLowering else each, description)
        passes.finalize()
        return [passes]
