"""A BMv2 JSON of the shape that an older p4c printed (version 2.7), with errors numbered from any code on.

The parser extracts `h` and rejects a value of 10 or more. Ingress stores `parser_error` to `report`, a header
that it adds. Egress recirculates a packet whose `h.value` is `RECIRCULATED`, with the value 3 and the old
`parser_error` in its field list.
"""

from __future__ import annotations

from typing import Any

RECIRCULATED = 12
PORT = 5
Json = dict[str, Any]  # a part of a program, whose values depend on the key
_ERRORS = (
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "Large",
)
_STANDARD_FIELDS = (
    ("ingress_port", 9), ("egress_spec", 9), ("egress_port", 9), ("clone_spec", 32), ("instance_type", 32),
    ("drop", 1), ("recirculate_port", 16), ("packet_length", 32), ("enq_timestamp", 32), ("enq_qdepth", 19),
    ("deq_timedelta", 32), ("deq_qdepth", 19), ("ingress_global_timestamp", 48),
    ("egress_global_timestamp", 48), ("lf_field_list", 32), ("mcast_grp", 16), ("resubmit_flag", 32),
    ("egress_rid", 16), ("checksum_error", 1), ("recirculate_flag", 32), ("parser_error", 32),
    ("_padding", 5),
)  # fmt: skip


def error_codes(first: int) -> dict[str, int]:
    return {name: code for code, name in enumerate(_ERRORS, first)}


def program(first_error: int) -> Json:
    """Return the program, whose error NoError has the code `first_error`."""
    value, report = _field("h", "value"), _field("report", "code")
    code = _field("standard_metadata", "parser_error")
    is_small = {"op": "d2b", "left": None, "right": _expression("<", value, _constant(10))}
    large = error_codes(first_error)["Large"]
    parser_ops = [
        {"op": "extract", "parameters": [{"type": "regular", "value": "h"}]},
        {"op": "verify", "parameters": [{"type": "expression", "value": is_small}, _constant(large)]},
    ]
    accept = {"value": "default", "mask": None, "next_state": None}
    to_recirculate = _expression("==", value, _constant(RECIRCULATED))
    return {
        "program": "report.p4",
        "__meta__": {"version": [2, 7], "compiler": "https://github.com/p4lang/p4c"},
        "header_types": [
            {"name": "standard_metadata", "id": 0, "fields": [[*f, False] for f in _STANDARD_FIELDS]},
            {"name": "h_t", "id": 1, "fields": [["value", 32, False]], "max_length": None},
            {"name": "report_t", "id": 2, "fields": [["code", 32, False]], "length_exp": None},
        ],
        "headers": [
            {"name": "standard_metadata", "id": 0, "header_type": "standard_metadata", "metadata": True},
            {"name": "h", "id": 1, "header_type": "h_t", "metadata": False, "pi_omit": True},
            {"name": "report", "id": 2, "header_type": "report_t", "metadata": False, "pi_omit": True},
        ],
        "field_lists": [{"id": 1, "name": "again", "elements": [code]}],
        "errors": [[name, number] for name, number in error_codes(first_error).items()],
        "parsers": [
            {
                "name": "parser", "id": 0, "init_state": "start",
                "parse_states": [
                    {
                        "name": "start", "id": 0, "parser_ops": parser_ops, "transitions": [accept],
                        "transition_key": [],
                    }
                ],
            }
        ],
        "deparsers": [{"name": "deparser", "id": 0, "order": ["h", "report"]}],
        "actions": [
            _action("record", 0, [
                ("assign", _field("standard_metadata", "egress_spec"), _constant(PORT)),
                ("add_header", _header("report")),
                ("assign", report, code),
            ]),
            _action("recirculate_small", 1, [
                ("assign", value, _constant(3)),
                ("remove_header", _header("report")),
                ("recirculate", _constant(1)),
            ]),
        ],
        "pipelines": [
            {
                "name": "ingress", "id": 0, "init_table": "record", "tables": [], "conditionals": [],
                "action_calls": [{"name": "record", "id": 0, "action_id": 0, "next_node": None}],
            },
            {
                "name": "egress", "id": 1, "init_table": "is_large", "tables": [],
                "action_calls": [{"name": "recirculate_small", "id": 1, "action_id": 1, "next_node": None}],
                "conditionals": [
                    {
                        "name": "is_large", "id": 0, "expression": to_recirculate,
                        "true_next": "recirculate_small", "false_next": None,
                    }
                ],
            },
        ],
    }  # fmt: skip


def _field(header: str, field: str) -> Json:
    return {"type": "field", "value": [header, field]}


def _header(name: str) -> Json:
    return {"type": "header", "value": name}


def _constant(value: int) -> Json:
    return {"type": "hexstr", "value": hex(value)}


def _expression(op: str, left: Json, right: Json) -> Json:
    return {"type": "expression", "value": {"op": op, "left": left, "right": right}}


def _action(name: str, number: int, calls: list[tuple[Any, ...]]) -> Json:
    primitives = [{"op": op, "parameters": list(parameters)} for op, *parameters in calls]
    return {"name": name, "id": number, "runtime_data": [], "primitives": primitives}
