"""Fit P4Info to its program, where p4c's P4Info and its JSON differ.

`@p4runtime_translation` gives a type another width for controllers, or no width if they use strings. A field
of such a type gets the program's width here; `codecs.translation` has the controllers' widths.
"""

from __future__ import annotations

from collections.abc import Iterable

from softswitch.ir import Program
from softswitch.p4runtime.messages import p4i, p4t

TypedField = p4i.MatchField | p4i.Action.Param | p4i.ControllerPacketMetadata.Metadata


def fit_to_program(p4info: p4i.P4Info, program: Program) -> p4i.P4Info:
    """Return P4Info with the program's widths for keys of type `error` and for translated types.

    Digests get the program's names, because p4c makes up another name in each file if a digest's type has
    none. Action profiles without a table are omitted, as p4c omits them in the program.
    """
    fitted_p4info = p4i.P4Info()
    fitted_p4info.CopyFrom(p4info)
    types = fitted_p4info.type_info
    for table in fitted_p4info.tables:
        program_table = program.tables.get(table.preamble.name)
        _set_widths(
            types, table.match_fields, [part.width for part in program_table.key] if program_table else ()
        )
    for action in fitted_p4info.actions:
        program_action = program.entry_actions.get(action.preamble.name)
        _set_widths(types, action.params, program_action.parameters if program_action else (), is_key=False)
    for header in fitted_p4info.controller_packet_metadata:
        _set_widths(types, header.metadata, _header_widths(header, program), is_key=False)
    _rename_digests(fitted_p4info, program)
    used_profiles = {table.implementation_id for table in fitted_p4info.tables}
    program_profiles = {profile.name for profile in program.profiles}
    profiles = [
        profile
        for profile in fitted_p4info.action_profiles
        if profile.preamble.id in used_profiles or profile.preamble.name in program_profiles
    ]
    del fitted_p4info.action_profiles[:]
    fitted_p4info.action_profiles.extend(profiles)
    return fitted_p4info


def _set_widths(
    types: p4t.P4TypeInfo, fields: Iterable[TypedField], widths: Iterable[int], is_key: bool = True
) -> None:
    for field, width in zip(fields, widths, strict=False):
        is_error_key = is_key and field.bitwidth == 0 and not field.HasField("type_name")
        if is_error_key or _is_translated(types, field.type_name):
            field.bitwidth = width


def _is_translated(types: p4t.P4TypeInfo, type_name: p4t.P4NamedType) -> bool:
    return type_name.name in types.new_types and types.new_types[type_name.name].HasField("translated_type")


def _header_widths(header: p4i.ControllerPacketMetadata, program: Program) -> list[int]:
    """Return the widths of the program's header that has the same fields; P4Info does not name the header."""
    names = [field.name for field in header.metadata]
    headers = (h.fields for h in program.headers if [f.name for f in h.fields] == names)
    return [f.width for f in next(headers, ())]


def _rename_digests(p4info: p4i.P4Info, program: Program) -> None:
    """Give digests that only P4Info has the names that only the program has, if their numbers are equal."""
    p4info_names, program_names = {d.preamble.name for d in p4info.digests}, {d.name for d in program.digests}
    only_in_p4info = [d for d in p4info.digests if d.preamble.name not in program_names]
    only_in_program = [d.name for d in program.digests if d.name not in p4info_names]
    if len(only_in_p4info) == len(only_in_program):
        for digest, name in zip(only_in_p4info, only_in_program, strict=True):
            digest.preamble.name = name
