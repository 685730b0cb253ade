"""P4Info of a compiled program, equal to what p4c writes."""

from __future__ import annotations

from typing import Any

from google.protobuf import text_format

from softswitch.p4 import tree, types
from softswitch.p4.compiler import deep_recursion, errors_collected
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.lower_program import Lowered
from softswitch.p4.objects import ExternObject, control_plane_name
from softswitch.p4.p4info_annotations import fill_annotations, fill_documentation, key_values
from softswitch.p4.p4info_externs import ExternMessages
from softswitch.p4.p4info_ids import ObjectType
from softswitch.p4.p4info_objects import PackageBlock, SeenAction, SeenTable, SeenValueSet
from softswitch.p4.p4info_tables import field_ids
from softswitch.p4.p4info_types import flat_fields
from softswitch.p4runtime.messages import p4i

_PACKAGE_FIELDS = ("name", "version", "organization", "contact", "url", "arch")
_PLATFORM_FIELDS = (
    "multicast_group_table_size",
    "multicast_group_table_total_replicas",
    "multicast_group_table_max_replicas_per_entry",
)


def p4info(lowered: Lowered) -> p4i.P4Info:
    """Return P4Info; raise `CompileError` where an annotation or a size cannot be in it."""
    with errors_collected(lowered.state.sources), deep_recursion():
        return P4InfoBuilder(lowered).build()


def message_text(message: Any) -> str:
    """Return a message as p4c prints it: two comments, and protobuf's text."""
    descriptor = message.DESCRIPTOR
    body = text_format.MessageToString(message, as_utf8=False)
    return f"# proto-file: {descriptor.file.name}\n# proto-message: {descriptor.full_name}\n\n{body}"


def p4info_text(message: p4i.P4Info) -> str:
    return message_text(message)


class P4InfoBuilder(ExternMessages):
    """Adds the messages in p4c's order: global instances, what each block has, headers of packets."""

    def build(self) -> p4i.P4Info:
        for each in self._globals:
            self._add_extern(each)
        for block in self.blocks:
            self._add_block(block)
        for header in self._headers:
            self._add_controller_header(header)
        self._add_package()
        return self.message

    def _add_block(self, block: PackageBlock) -> None:
        for each in block.seen:
            match each:
                case SeenTable():
                    self._add_table(each)
                case SeenAction():
                    self._add_action(each)
                    for calls in self._calls[id(each)]:
                        self._add_digests(calls)
                case SeenValueSet():
                    self._add_value_set(each)
                case ExternObject():
                    self._add_extern(each)
        self._add_digests(block.calls)

    def _add_controller_header(self, header: tree.Struct) -> None:
        if header.annotation("hidden") is not None:
            return
        annotation = header.annotation("controller_header")
        assert annotation is not None
        message = self.message.controller_packet_metadata.add()
        kind, name = ObjectType.CONTROLLER_HEADER, control_plane_name(header, "")
        self._fill_preamble(message.preamble, kind, name, header.annotations)
        message.preamble.name = message.preamble.alias = annotation.text
        fields = list(flat_fields(types.Struct(header), self._facts))
        numbers = field_ids([written for _, written, _ in fields])
        for (field, written, given), number in zip(fields, numbers, strict=True):
            if any(each.name == "hidden" for each in written):
                continue
            made = message.metadata.add(id=number, name=field)
            fill_annotations(made, written, self._facts)
            made.bitwidth = self._types.width(given)
            self._name_type(made, given)

    def _add_package(self) -> None:
        message = self.message.pkg_info
        message.arch = "v1model"
        main = next(each for each in self._facts.globals.names["main"] if isinstance(each, tree.Instance))
        if (package := main.annotation("pkginfo")) is not None:
            for key, value in key_values(package, self._facts).items():
                if key in _PACKAGE_FIELDS:
                    setattr(message, key, str(value))
        if (platform := main.annotation("platform_property")) is not None:
            for key, value in key_values(platform, self._facts).items():
                if key in _PLATFORM_FIELDS:
                    if not isinstance(value, int) or not 0 <= value < 1 << 31:
                        raise SourceError(platform, f"expected a number below 2^31 as `{key}`, got {value}")
                    setattr(message.platform_properties, key, value)
        fill_annotations(message, main.annotations, self._facts, ("pkginfo", "platform_property"))
        fill_documentation(message, main.annotations)
