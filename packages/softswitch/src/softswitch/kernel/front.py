"""The front end on interfaces: a frame is received on one interface and sent on another.

A program of one pass needs only the first bytes of a frame: the payload stays in the kernel's frame, whose
headers grow or shrink. For other programs the whole frame is copied to the arena and back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import partial

from llvmlite import ir as llvm

from softswitch import ir
from softswitch.codegen.loops import OpaqueVariable, repeat_while
from softswitch.codegen.output import OutputWriter
from softswitch.codegen.packet import Packet
from softswitch.codegen.parser import is_in_cycle
from softswitch.codegen.traffic import needs_queues
from softswitch.kernel import arena
from softswitch.kernel.frame import VLAN_TAG_BYTES, KernelFrame, Skb
from softswitch.kernel.notices import emit_notice
from softswitch.kernel.program import Builder, Code, cached_code
from softswitch.kernel.target import Bpf
from softswitch.llvmir import I32, I64, byte_offset, integer, resize
from softswitch.memory.layout import Layout
from softswitch.memory.output import ALIGNMENT, HEAD_BYTES, LOG
from softswitch.memory.words import WORD_BYTES
from softswitch.v1model import PORT_NUMBERS

FRAME_BYTES = 9216  # the largest frame, with a VLAN tag
MAX_FRAME_BYTES = FRAME_BYTES - VLAN_TAG_BYTES
"""Bytes of the largest frame without a VLAN tag: a jumbo frame."""
_OUTPUT_BYTES = 1 << 16
_RECORD_LENGTH_OFFSET = 4  # of the field `length` in the head of an output record (`memory.output`)
_MARGIN_BYTES = 64  # after each buffer in a CPU's area


class FrontOutput(OutputWriter):
    """Writer of records without payloads; sizes of headers and payload go to the CPU's area at `lengths`."""

    def __init__(
        self, packet: Packet, memory: llvm.Value, capacity: llvm.Value, target: Bpf, lengths: int
    ) -> None:
        super().__init__(packet, memory, capacity)
        self._lengths = byte_offset(packet.b, target.area(packet.b), lengths)

    def write_payload(self, start: llvm.Value, end: llvm.Value, size: llvm.Value) -> None:
        b = self.b
        b.store(b.sub(b.ptrtoint(end, I64), b.ptrtoint(start, I64)), self._lengths)
        b.store(size, byte_offset(b, self._lengths, WORD_BYTES))


def build_front(
    program: ir.Program,
    layout: Layout,
    priority_queues: int = 1,
    reads_clock: bool = True,
    frame: type[KernelFrame] = Skb,
) -> Code:
    """Return the program for a type of frame; without `reads_clock`, it takes times from `arena.CLOCK`."""
    options = {"frame": frame.name, "priority queues": priority_queues, "reads the clock": reads_clock}
    return cached_code(
        program, options, lambda: _FrontEnd(program, layout, priority_queues, reads_clock, frame).build()
    )


class _FrontEnd:
    def __init__(
        self,
        program: ir.Program,
        layout: Layout,
        priority_queues: int,
        reads_clock: bool,
        frame_type: type[KernelFrame],
    ) -> None:
        self.builder = builder = Builder(frame_type.name, frame_type.drop_code, reads_clock)
        self.b, self.target = builder.b, builder.target
        self.max_parsed_bytes, self.may_copy = max_parsed_bytes(program), needs_queues(program)
        self.has_notices = any(map(program.has, (ir.Digest, ir.LogMessage, ir.Assert, ir.CountLoop)))
        runs = self.target.allocate(arena.PROGRAM_RUNS_BYTES)
        assert runs == arena.PROGRAM_RUNS  # allocated first: `Arena.program_runs` reads them there
        lengths = self.target.allocate(2 * WORD_BYTES)  # of the headers and of the payload
        front_output = partial(FrontOutput, target=self.target, lengths=lengths)
        # The packet's fields come first: an instruction's offset is below 32 KiB, and each field beyond would
        # need an address on the stack.
        builder.add_program(
            program, layout, priority_queues, OutputWriter if self.max_parsed_bytes is None else front_output
        )
        frame, output = (
            self.target.allocate(size)
            for size in (FRAME_BYTES + _MARGIN_BYTES, _OUTPUT_BYTES + _MARGIN_BYTES)
        )
        area = self.target.area(self.b)
        self.frame, self.output, self.lengths = (
            byte_offset(self.b, area, o) for o in (frame, output, lengths)
        )
        self.drop, on_failure = (self.b.append_basic_block(name) for name in ("drop", "failed"))
        self.port = OpaqueVariable(self.b, I64, name="port")
        self.kernel_frame = frame_type(builder, on_failure)
        with self.b.goto_block(self.drop):
            self.b.ret(builder.drop_code)
        with self.b.goto_block(on_failure):
            self._increment_counter(self.port.get(), arena.UNSENT)
            self.b.branch(self.drop)

    def build(self) -> Code:
        b = self.b
        t_in, now = self.builder.clock()
        port = self._find_port()
        self._increment_counter(port, arena.RECEIVED)
        self._count_run(port)
        self._drop_oversize(port)
        self.kernel_frame.restore_vlan_tags(self.frame)
        self.kernel_frame.make_linear()
        length = self.kernel_frame.length()
        loaded_length = length
        if self.max_parsed_bytes is not None:
            limit = integer(64, self.max_parsed_bytes)
            loaded_length = b.select(b.icmp_unsigned("<", length, limit), length, limit)
        self.kernel_frame.load(self.frame, loaded_length)
        count = self.builder.process(
            resize(b, port, 32), self.frame, resize(b, length, 32), t_in, now, self.output,
            integer(32, _OUTPUT_BYTES),
        )  # fmt: skip
        self._send(b.zext(count, I64))
        return self.builder.finish()

    # -- receive

    def _find_port(self) -> llvm.Value:
        b = self.b
        interface = b.zext(self.kernel_frame.field(self.kernel_frame.interface), I64)
        # Like `arena.port_slots`.
        product = b.mul(interface, self.builder.word(arena.MULTIPLIER))
        slot = b.lshr(b.and_(product, integer(64, (1 << 32) - 1)), integer(64, 32 - arena.SLOT_BITS))
        entry = self._load_word(arena.PORT_OF, slot)
        self._drop_unless(b.icmp_unsigned("==", b.lshr(entry, integer(64, 32)), interface))
        port = b.and_(entry, integer(64, PORT_NUMBERS - 1))
        self.port.set(port)
        return port

    def _drop_oversize(self, port: llvm.Value) -> None:
        b, length = self.b, self.kernel_frame.length()
        is_segmented = self.kernel_frame.is_segmented()
        is_large = b.icmp_unsigned(">", length, integer(64, MAX_FRAME_BYTES))
        with b.if_then(b.or_(is_segmented, is_large), likely=False):
            self._increment_counter(port, arena.OVERSIZE_IN)
            b.store(length, self._counter_address(port, arena.LAST_OVERSIZE_BYTES))
            b.branch(self.drop)

    def _load_word(self, offset: int, index: llvm.Value) -> llvm.Value:
        address = byte_offset(self.b, self.builder.address_at(offset), self.b.shl(index, integer(64, 3)))
        return self.b.load(address, typ=I64)

    def _counter_address(self, port: llvm.Value, counter_offset: int) -> llvm.Value:
        b = self.b
        offset = b.mul(port, integer(64, arena.COUNTER_BYTES))
        return byte_offset(b, byte_offset(b, self.builder.address_at(arena.COUNTERS), offset), counter_offset)

    def _increment_counter(self, port: llvm.Value, counter_offset: int) -> None:
        self.b.atomic_rmw("add", self._counter_address(port, counter_offset), integer(64, 1), "monotonic")

    def _count_run(self, port: llvm.Value) -> None:
        """Count the frame in this CPU's area, which no other frame changes at the same time."""
        b = self.b
        all_runs = byte_offset(b, self.target.area(b), arena.PROGRAM_RUNS)
        runs = byte_offset(b, all_runs, b.shl(port, integer(64, 3)))
        b.store(b.add(b.load(runs, typ=I64), integer(64, 1)), runs)

    def _drop_unless(self, condition: llvm.Value) -> None:
        accepted = self.b.append_basic_block()
        self.b.cbranch(condition, accepted, self.drop)
        self.b.position_at_end(accepted)

    # -- send

    def _send(self, count: llvm.Value) -> None:
        b = self.b
        # 1 + offset of the record of a frame that has not been sent yet; 0 if there is none.
        unsent_record = OpaqueVariable(b, I64, name="pending")
        for kind, record, record_offset in self._iterate_records(count):
            is_frame = b.icmp_unsigned("<", kind, integer(32, LOG))
            with b.if_else(is_frame) as (frame, notice):
                with frame:
                    if self.may_copy:
                        self._send_copy(unsent_record.get())
                    unsent_record.set(b.add(record_offset, integer(64, 1)))
                with notice:
                    if self.has_notices:
                        size = b.zext(b.load(byte_offset(b, record, _RECORD_LENGTH_OFFSET), typ=I32), I64)
                        emit_notice(self.builder, record, b.add(size, integer(64, HEAD_BYTES)))
        last_record = unsent_record.get()
        self._drop_unless(b.icmp_unsigned("!=", last_record, integer(64, 0)))
        interface = self._prepare_output(last_record, self.drop)
        self._increment_counter(self.port.get(), arena.SENT)
        b.ret(self.kernel_frame.send(interface))

    def _iterate_records(self, count: llvm.Value) -> Iterator[tuple[llvm.Value, llvm.Value, llvm.Value]]:
        b = self.b
        number, used_bytes = OpaqueVariable(b, I64), OpaqueVariable(b, I64)
        with repeat_while(b, lambda: b.icmp_unsigned("<", number.get(), count)):
            record_offset = used_bytes.get()
            record = byte_offset(b, self.output, record_offset)
            kind, size = (b.load(byte_offset(b, record, o), typ=I32) for o in (0, _RECORD_LENGTH_OFFSET))
            yield kind, record, record_offset
            padded_size = b.and_(
                b.add(b.zext(size, I64), integer(64, ALIGNMENT - 1)), integer(64, -ALIGNMENT)
            )
            used_bytes.set(b.add(record_offset, b.add(padded_size, integer(64, HEAD_BYTES))))
            number.set(b.add(number.get(), integer(64, 1)))

    def _send_copy(self, unsent_record: llvm.Value) -> None:
        b = self.b
        with b.if_then(b.icmp_unsigned("!=", unsent_record, integer(64, 0))):
            after_copy = b.append_basic_block("copied")
            on_failure, self.kernel_frame.on_failure = (
                self.kernel_frame.on_failure,
                b.append_basic_block("not_copied"),
            )
            with b.goto_block(self.kernel_frame.on_failure):
                self._increment_counter(self.port.get(), arena.UNSENT)
                b.branch(after_copy)
            interface = self._prepare_output(unsent_record, after_copy)
            self.kernel_frame.send_copy(interface)
            self._increment_counter(self.port.get(), arena.SENT)
            b.branch(after_copy)
            b.position_at_end(after_copy)
            self.kernel_frame.on_failure = on_failure

    def _prepare_output(self, unsent_record: llvm.Value, failure_block: llvm.Block) -> llvm.Value:
        # Branches to `failure_block` if the port has no interface, or the frame is too large for it.
        b = self.b
        has_interface = b.append_basic_block("port")
        record = byte_offset(b, self.output, b.sub(unsent_record, integer(64, 1)))  # 1 + offset: see `_send`
        port = b.and_(b.zext(b.load(record, typ=I32), I64), integer(64, PORT_NUMBERS - 1))
        self.port.set(port)
        interface = self._load_word(arena.INTERFACE_OF, port)
        no_interface = b.append_basic_block("missing")
        b.cbranch(b.icmp_unsigned("!=", interface, integer(64, 0)), has_interface, no_interface)
        with b.goto_block(no_interface):
            b.atomic_rmw("add", self.builder.address_at(arena.NO_SUCH_PORT), integer(64, 1), "monotonic")
            b.branch(failure_block)
        b.position_at_end(has_interface)
        length = b.zext(b.load(byte_offset(b, record, _RECORD_LENGTH_OFFSET), typ=I32), I64)
        data = byte_offset(b, record, HEAD_BYTES)
        if self.max_parsed_bytes is None:
            self._adjust_length(length)
            self.kernel_frame.store(data, length)
        else:
            self._store_headers(data, length)
        self._require_mtu(interface, failure_block)
        return interface

    def _require_mtu(self, interface: llvm.Value, failure_block: llvm.Block) -> None:
        too_large = self.b.append_basic_block("too_large")
        self.kernel_frame.require_mtu(interface, self.frame, too_large)
        with self.b.goto_block(too_large):
            self._increment_counter(self.port.get(), arena.OVERSIZE_OUT)
            self.b.branch(failure_block)

    def _adjust_length(self, length: llvm.Value) -> None:
        with self.b.if_then(self.b.icmp_unsigned("!=", self.kernel_frame.length(), length)):
            self.kernel_frame.set_length(length)

    def _store_headers(self, data: llvm.Value, length: llvm.Value) -> None:
        b = self.b
        headers, payload = (b.load(byte_offset(b, self.lengths, o), typ=I64) for o in (0, WORD_BYTES))
        header_bytes = b.select(b.icmp_unsigned("<", headers, length), headers, length)
        payload_size = b.sub(length, header_bytes)
        old_header_bytes = b.sub(self.kernel_frame.length(), payload)
        has_payload = b.icmp_unsigned("!=", payload_size, integer(64, 0))
        # Without a payload, the frame grows at its end, where XDP has more room than in front.
        is_longer = b.icmp_unsigned(">", header_bytes, old_header_bytes)
        with b.if_then(b.and_(is_longer, has_payload)):
            self.kernel_frame.grow_front(b.sub(header_bytes, old_header_bytes))
        is_shorter = b.icmp_unsigned("<", header_bytes, old_header_bytes)
        with b.if_then(b.and_(is_shorter, has_payload)):
            self.kernel_frame.move(target=header_bytes, source=old_header_bytes, size=payload_size)
        self._adjust_length(length)
        self.kernel_frame.store(data, header_bytes)


def max_parsed_bytes(program: ir.Program) -> int | None:
    """Return the number of leading bytes that the parser can read; None if the whole frame is needed."""
    # The whole frame is needed if packets are recirculated or cloned, if a checksum covers the payload, and
    # if the parser has loops other than over the elements of a stack.
    if needs_queues(program) or any(calculation.payload for calculation in program.calculations):
        return None
    total = sum(program.headers[h].max_bytes for stack in program.stacks for h in stack.headers)
    for number, state in enumerate(program.parser):
        size = 0
        for operation in state.operations:
            match operation:
                case ir.Extract(header=int(header)):
                    size += program.headers[header].max_bytes
                case ir.Advance(ir.Constant(bits)):
                    size += -(-bits // 8)
                case ir.Advance():
                    return None
        if size and is_in_cycle(program.parser, number):
            return None
        total += size
    return total + max(map(_lookahead_bytes, program.parser), default=0)


def _lookahead_bytes(part: object) -> int:
    maximum = 0
    if isinstance(part, ir.Lookahead):
        maximum = -(-(part.offset + part.width) // 8)
    if isinstance(part, tuple | list):
        return max([maximum, *map(_lookahead_bytes, part)])
    if is_dataclass(part):
        return max([maximum, *(_lookahead_bytes(getattr(part, field.name)) for field in fields(part))])
    return maximum
