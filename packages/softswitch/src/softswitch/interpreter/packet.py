"""One packet in flight: its fields, validity of its headers, and requests of its actions (such as clone).

Headers start invalid with all fields 0, and keep their fields when they become invalid. BMv2: packet.h,
phv.cpp, headers.cpp, stacks.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from softswitch import ir
from softswitch.interpreter.observer import NULL_OBSERVER, Observer
from softswitch.v1model import Standard


class CloneRequest(NamedTuple):
    session: int
    field_list: int


@dataclass
class Packet:
    program: ir.Program
    port: int
    """Port at which the frame arrived, unchanged by resubmit and recirculate."""
    frame: bytes
    ingress_length: int
    """Length on arrival in bytes, which counters and meters use."""
    length: int  # in bytes, changed with the headers' validity (packet register 0 of simple_switch)
    observer: Observer[Packet] = NULL_OBSERVER
    position: int = 0
    """Bytes that the parser has consumed; the payload follows."""
    fields: list[list[int]] = field(default_factory=list)  # values by header and field
    valid: list[bool] = field(default_factory=list)  # by header
    varbits: list[int] = field(default_factory=list)
    """Current width in bits of each header's varbit field."""
    cursors: list[int] = field(default_factory=list)  # `nextIndex` of each header stack
    args: tuple[int, ...] = ()  # of the running action
    has_exited: bool = False
    truncated_length: int | None = None  # maximum length to send, in bytes; None for no limit
    clone: CloneRequest | None = None
    # Index of the field list of each request (in `Program.digests` for a digest); None without a request.
    resubmit: int | None = None
    recirculate: int | None = None
    digest: int | None = None

    def __post_init__(self) -> None:
        if not self.fields:
            self.fields = [[0] * len(header.fields) for header in self.program.headers]
            self.valid = [header.metadata for header in self.program.headers]
            self.varbits = [0] * len(self.program.headers)
            self.cursors = [0] * (1 + max((stack.cursor for stack in self.program.stacks), default=-1))

    def make_copy(self) -> Packet:
        """Return a copy with the same headers and metadata, but without requests."""
        return Packet(
            self.program,
            self.port,
            self.frame,
            self.ingress_length,
            self.length,
            self.observer,
            self.position,
            [list(values) for values in self.fields],
            list(self.valid),
            list(self.varbits),
            list(self.cursors),
        )

    # -- fields

    def bits(self, ref: ir.FieldRef) -> int:  # as on the wire: a signed field in two's complement
        return self.get(ref) & ((1 << self.width(ref)) - 1)

    def get(self, ref: ir.FieldRef) -> int:
        """Return a field's value; that of a signed field may exceed its type, up to `FieldType.max_value`."""
        return self.fields[ref.header][ref.field]

    def set(self, ref: ir.FieldRef, value: int) -> None:
        """Store a value, modulo 2^width if the field cannot hold it."""
        field_type = self.program.headers[ref.header].fields[ref.field]
        if field_type.signed and field_type.min_value <= value <= field_type.max_value:
            self.fields[ref.header][ref.field] = value
        else:
            self.fields[ref.header][ref.field] = self._wrap(ref.header, field_type, value)

    def set_bits(self, ref: ir.FieldRef, bits: int) -> None:
        """Store a bit pattern, whose top bit is a signed field's sign."""
        field_type = self.program.headers[ref.header].fields[ref.field]
        self.fields[ref.header][ref.field] = self._wrap(ref.header, field_type, bits)

    def _wrap(self, header: int, field_type: ir.FieldType, bits: int) -> int:
        """Return the value of a bit pattern, modulo 2^width of its field."""
        width = self.varbits[header] if field_type.varbit else field_type.width
        value = bits & ((1 << width) - 1)
        is_negative = field_type.signed and value >> (width - 1)
        return value - (1 << width) if is_negative else value

    def width(self, ref: ir.FieldRef) -> int:
        """Return the current width of a field in bits, which varies for a varbit field."""
        field_type = self.program.headers[ref.header].fields[ref.field]
        return self.varbits[ref.header] if field_type.varbit else field_type.width

    def set_standard(self, name: Standard, value: int) -> None:
        self.set(self.program.standard_field(name), value)

    def get_standard(self, name: Standard) -> int:
        return self.get(self.program.standard_field(name))

    def copy_varbit(self, target: ir.FieldRef, source: ir.FieldRef) -> None:
        self.varbits[target.header] = self.varbits[source.header]
        self.set(target, self.bits(source))

    def reset_metadata(self, source: Packet, field_list: int) -> None:
        """Zero all metadata except the fields of a list, which are copied from `source`."""
        for index, header in enumerate(self.program.headers):
            if header.metadata:
                self.fields[index] = [0] * len(header.fields)
        for ref in self.program.field_lists[field_list].values:
            if isinstance(ref, ir.FieldRef):
                self.set(ref, source.get(ref))

    # -- headers

    def header_bits(self, header: int) -> int:
        return self.program.headers[header].bits + self.varbits[header]

    def make_valid(self, header: int) -> None:
        self.valid[header] = True
        for sibling in self.program.siblings.get(header, ()):
            self.valid[sibling] = False

    def add_header(self, header: int) -> None:
        """Make a header valid; if it was not, zero its fields (a varbit field keeps its length)."""
        if not self.valid[header]:
            self.fields[header] = [0] * len(self.fields[header])
            self.make_valid(header)
            self.length += self.header_bits(header) // 8

    def remove_header(self, header: int) -> None:
        if self.valid[header]:
            self.length -= self.header_bits(header) // 8
        self.valid[header] = False

    def copy_header(self, target: int, source: int) -> None:
        """Assign a header; BMv2 does not update the packet's length."""
        if not self.valid[source]:
            self.valid[target] = False
            return
        self.make_valid(target)
        self.fields[target] = list(self.fields[source])
        self.varbits[target] = self.varbits[source]

    def shift(self, stack: ir.Stack, sources: tuple[int, ...], invalid_positions: tuple[int, ...]) -> None:
        old_elements = [(self.fields[h], self.valid[h], self.varbits[h]) for h in stack.headers]
        for position, (header, source) in enumerate(zip(stack.headers, sources, strict=True)):
            self.fields[header], self.valid[header], self.varbits[header] = old_elements[source]
            self.valid[header] &= position not in invalid_positions

    # -- bytes

    def unpack_header(self, header: int, data: bytes) -> None:
        bits, offset = int.from_bytes(data, "big"), 8 * len(data)
        values = self.fields[header]
        for index, field_type in enumerate(self.program.headers[header].fields):
            offset -= self.varbits[header] if field_type.varbit else field_type.width
            values[index] = self._wrap(header, field_type, bits >> offset)

    def header_value(self, header: int) -> int:
        bits = 0
        for value, field_type in zip(self.fields[header], self.program.headers[header].fields, strict=True):
            width = self.varbits[header] if field_type.varbit else field_type.width
            bits = bits << width | value & ((1 << width) - 1)
        return bits

    def header_bytes(self, header: int) -> bytes:
        return self.header_value(header).to_bytes(self.header_bits(header) // 8, "big")

    @property
    def payload(self) -> bytes:
        """Bytes that the parser did not consume, truncated as in BMv2's checksums."""
        return self.frame[self.position :][: self.truncated_length]

    def truncate(self, length: int) -> None:
        """Send at most `length` bytes; the smallest of several lengths applies."""
        limit = self.truncated_length
        self.truncated_length = length if limit is None else min(length, limit)
