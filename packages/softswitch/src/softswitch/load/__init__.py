"""Load a program from p4c's BMv2 JSON; constructs that this switch does not implement are refused here.

behavioral-model's docs/JSON_format.md (version 2.23) describes the format.
"""

from __future__ import annotations

from softswitch import ir
from softswitch.errors import ProgramError, UnsupportedConstruct
from softswitch.load.calculations import load_calculation, load_checksum, load_field_list
from softswitch.load.document import malformed_refused, read_document
from softswitch.load.parser import load_parser, load_value_sets
from softswitch.load.scope import Json, Names, Scope, source_line
from softswitch.load.statements import load_action, load_statement
from softswitch.load.tables import load_control

__all__ = ["load_program"]


def load_program(data: bytes | str) -> ir.Program:
    document = read_document(data)
    with malformed_refused():
        return _build_program(document)


def _build_program(document: Json) -> ir.Program:
    for item in document["extern_instances"]:
        raise UnsupportedConstruct(f"user-defined extern `{item.get('name', '?')}`", source_line(item))
    scope = Scope(document)
    calculations = [load_calculation(scope, item, item["name"]) for item in document["calculations"]]
    pipelines = Names("pipeline", ((item["name"], item) for item in document["pipelines"]))
    profiles: list[ir.ActionProfile] = []
    for item in [p for name in ("ingress", "egress") for p in pipelines[name]["action_profiles"]]:
        if "selector" in item:
            calculations.append(load_calculation(scope, item["selector"], item["name"]))
        selector = len(calculations) - 1 if "selector" in item else None
        profiles.append(ir.ActionProfile(item["name"], item["max_size"], selector))
    profile_index = Names("action profile", ((profile.name, i) for i, profile in enumerate(profiles)))
    states, start = load_parser(scope, _find_item(document, "parser"))
    deparser = _find_item(document, "deparser")
    return ir.Program(
        headers=scope.headers,
        stacks=tuple(scope.stacks),
        unions=tuple(scope.union_members.values()),
        errors={name: code for name, code in document["errors"]},
        parser=states,
        start_state=start,
        value_sets=load_value_sets(scope, states),
        verify=tuple(load_checksum(scope, item) for item in document["checksums"] if item["verify"]),
        actions=tuple(load_action(scope, item) for item in document["actions"]),
        ingress=load_control(scope, pipelines["ingress"], profile_index),
        egress=load_control(scope, pipelines["egress"], profile_index),
        update=tuple(load_checksum(scope, item) for item in document["checksums"] if item["update"]),
        deparser_body=tuple(
            statement for p in deparser.get("primitives", []) for statement in load_statement(scope, p, [])
        ),
        deparser=tuple(scope.header_index[name] for name in deparser["order"]),
        counters=tuple(scope.counters),
        meters=tuple(scope.meters),
        registers=tuple(scope.registers),
        profiles=tuple(profiles),
        calculations=tuple(calculations),
        field_lists=tuple(load_field_list(scope, item) for item in document["field_lists"]),
        digests=tuple(load_field_list(scope, item) for item in document["learn_lists"]),
        messages=tuple(scope.messages),
        field_index=scope.field_index,
    )


def _find_item(document: Json, kind: str) -> Json:
    """Return the parser or deparser named `kind`, which simple_switch runs, or else the first."""
    items: list[Json] = document[f"{kind}s"]
    if not items:
        raise ProgramError(f"{kind}s: expected one, there is none")
    return next((item for item in items if item.get("name") == kind), items[0])
