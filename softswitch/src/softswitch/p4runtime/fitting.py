"""Fit P4Info to its program, where p4c's P4Info and its JSON differ.

`@p4runtime_translation` gives a type another width for controllers, or none for a string. A field of such a
type gets the program's width here; `codecs.translation` has the controllers' widths.
"""

from __future__ import annotations

from collections.abc import Iterable

from softswitch.ir import Program
from softswitch.p4runtime.messages import p4i, p4t

Typed = p4i.MatchField | p4i.Action.Param | p4i.ControllerPacketMetadata.Metadata


def fit_to_program(p4info: p4i.P4Info, program: Program) -> p4i.P4Info:
    """Return P4Info with the program's widths for keys of type `error` and for translated types.

    Digests get the program's names, as p4c makes up one for each file if a digest's type has none. Action
    profiles without a table are left out, as p4c omits them in the program.
    """
    completed = p4i.P4Info()
    completed.CopyFrom(p4info)
    types = completed.type_info
    for table in completed.tables:
        known = program.tables.get(table.preamble.name)
        _fit(types, table.match_fields, [part.width for part in known.key] if known else ())
    for action in completed.actions:
        found = (a.parameters for a in program.actions if a.name == action.preamble.name)
        _fit(types, action.params, next(found, ()), is_key=False)
    for header in completed.controller_packet_metadata:
        _fit(types, header.metadata, _header_widths(header, program), is_key=False)
    _name_digests(completed, program)
    used = {table.implementation_id for table in completed.tables}
    declared = [p for p in completed.action_profiles if p.preamble.id in used or _has_profile(program, p)]
    del completed.action_profiles[:]
    completed.action_profiles.extend(declared)
    return completed


def _fit(types: p4t.P4TypeInfo, fields: Iterable[Typed], widths: Iterable[int], is_key: bool = True) -> None:
    for field, width in zip(fields, widths, strict=False):
        has_no_width = is_key and field.bitwidth == 0 and not field.HasField("type_name")
        if has_no_width or _is_translated(types, field.type_name):
            field.bitwidth = width


def _is_translated(types: p4t.P4TypeInfo, named: p4t.P4NamedType) -> bool:
    return named.name in types.new_types and types.new_types[named.name].HasField("translated_type")


def _header_widths(header: p4i.ControllerPacketMetadata, program: Program) -> list[int]:
    """Return the widths of the program's header with these fields; P4Info does not name it."""
    names = [field.name for field in header.metadata]
    matching = (h.fields for h in program.headers if [f.name for f in h.fields] == names)
    return [f.width for f in next(matching, ())]


def _has_profile(program: Program, profile: p4i.ActionProfile) -> bool:
    return any(known.name == profile.preamble.name for known in program.profiles)


def _name_digests(p4info: p4i.P4Info, program: Program) -> None:
    """Rename digests that the program lacks, in order, if it has as many that P4Info lacks."""
    declared, known = {d.preamble.name for d in p4info.digests}, {d.name for d in program.digests}
    unknown = [d for d in p4info.digests if d.preamble.name not in known]
    nameless = [d.name for d in program.digests if d.name not in declared]
    if len(unknown) == len(nameless):
        for digest, name in zip(unknown, nameless, strict=True):
            digest.preamble.name = name
