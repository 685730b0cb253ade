"""Compile LLVM IR to machine code in this process; object code is cached on disk."""

from __future__ import annotations

import contextlib
import ctypes
import struct

import llvmlite
import llvmlite.binding as llvm

from nativekit.notices import compiling
from nativekit.records import Records
from softswitch import ir
from softswitch.cache import cached_object, source_key_parts
from softswitch.codegen.pipeline import build_module
from softswitch.codegen.traffic import needs_queues, work_bytes
from softswitch.memory.layout import Layout, make_layout
from softswitch.memory.process import ARGUMENTS, PACKET_FUNCTION_NAME, RESULT_KIND, Kind
from softswitch.memory.rows import Row, rows
from softswitch.memory.waiting import QUEUE_HEAD_BYTES
from softswitch.memory.words import WORD_BYTES

_CTYPES: dict[Kind, type] = {
    Kind.ADDRESS: ctypes.c_void_p,
    Kind.INT32: ctypes.c_int32,
    Kind.UINT32: ctypes.c_uint32,
    Kind.UINT64: ctypes.c_uint64,
}
_PACKET_SIZE = struct.Struct("<Q")  # size in bytes of a packet in flight, which precedes the object code
PROCESS_CTYPE = ctypes.CFUNCTYPE(_CTYPES[RESULT_KIND], *(_CTYPES[argument.kind] for argument in ARGUMENTS))


_PASSES = "O2"  # part of the cache's key, as `_compile_source` sets them


class MachineCode:
    """A program's packet function for this CPU. It has no state, so pipelines may share it.

    A packet whose `priority` is not less than `priority_queues` is dropped, as in BMv2. A `buffered` function
    has queues between ingress and egress (`memory.process`).
    """

    def __init__(self, program: ir.Program, priority_queues: int = 1, buffered: bool = False) -> None:
        self.layout: Layout = make_layout(program)
        self.table_rows: Records[Row] = rows(self.layout.tables.values())
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        # libgcc defines the division of 128-bit integers; on systems without libgcc, the C library does.
        with contextlib.suppress(RuntimeError):
            llvm.load_library_permanently("libgcc_s.so.1")
        target = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2
        )
        # `program` is represented without its `field_index`.
        key_parts = source_key_parts(
            _host_identity(), priority_queues, buffered, program, program.field_index
        )
        cached_record = cached_object(
            key_parts, lambda: self._compile_program(program, priority_queues, buffered, target)
        )
        (packet_bytes,), code = _PACKET_SIZE.unpack_from(cached_record), cached_record[_PACKET_SIZE.size :]
        # `work` is the offset of the working memory, which is last, and empty unless there are queues.
        self.state_bytes: int = self.layout.work * WORD_BYTES
        if needs_queues(program):
            self.state_bytes += work_bytes(packet_bytes)
        self.queue_record_bytes: int = QUEUE_HEAD_BYTES + packet_bytes if buffered else 0
        """Bytes of a waiting packet's record without its payload; 0 if the function is not buffered."""
        # The engine needs a module; the code is in the object file.
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        self.process_address: int = self._engine.get_function_address(PACKET_FUNCTION_NAME)
        self.process = PROCESS_CTYPE(self.process_address)

    def _compile_program(
        self, program: ir.Program, priority_queues: int, buffered: bool, target: llvm.TargetMachine
    ) -> bytes:
        """Return the size in bytes of a packet in flight (`_PACKET_SIZE`), followed by the object code."""
        with compiling("the switch's program"):
            module, packet_type = build_module(program, self.layout, priority_queues, buffered)
            module.triple, module.data_layout = target.triple, str(target.target_data)
            source = str(module)
            code = cached_object(
                (_PASSES, source, *_host_identity()), lambda: _compile_source(source, target)
            )
        return _PACKET_SIZE.pack(packet_type.get_abi_size(target.target_data)) + code


def _host_identity() -> tuple[str, ...]:
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), llvmlite.__version__


def _compile_source(source: str, target: llvm.TargetMachine) -> bytes:
    module = llvm.parse_assembly(source)
    module.verify()
    # Four values that lie side by side become one vector.
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.slp_vectorization = True
    pass_builder = llvm.create_pass_builder(target, options)
    pass_builder.getModulePassManager().run(module, pass_builder)
    return bytes(target.emit_object(module))
