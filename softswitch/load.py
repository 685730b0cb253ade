"""BMv2 JSON -> IR. What this switch does not implement is refused here, with its P4 source line.

The format is described in behavioral-model, docs/JSON_format.md (version 2.23).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from softswitch import ir
from softswitch.errors import ProgramError, UnsupportedConstruct

Json = dict[str, Any]

# Parts of the JSON that must be empty, and what they hold.
REFUSED_PARTS = {
    "header_union_types": "a header union",
    "header_union_stacks": "a stack of header unions",
    "parse_vsets": "a parser value set",
    "meter_arrays": "a meter",
    "learn_lists": "a digest",
    "extern_instances": "a user-defined extern",
    "field_lists": "a field list (clone, resubmit, recirculate or digest)",
}

MATCH_KINDS = {kind.value: kind for kind in ir.MatchKind}
TOP_PRIORITY = (1 << 31) - 1
"""P4Runtime priority that BMv2's priority 0 stands for, as its P4Runtime server has it."""

UNARY_OPS = {"~": ir.Op.COMPLEMENT, "not": ir.Op.NOT}
BINARY_OPS = {op.value: op for op in ir.Op if op.value not in UNARY_OPS}


def load_program(data: bytes | str) -> ir.Program:
    """Read a program as p4c-bm2-ss prints it; `ProgramError` says what is wrong and where."""
    try:
        text = json.loads(data)
    except ValueError as error:
        raise ProgramError(f"the BMv2 JSON is not JSON: {error}") from None
    if not isinstance(text, dict) or "header_types" not in text or "pipelines" not in text:
        raise ProgramError("not a BMv2 program: `header_types` and `pipelines` expected at the top")
    try:
        return _Loader(text).program()
    except (KeyError, IndexError, TypeError, StopIteration) as error:
        raise ProgramError(f"not a BMv2 program as p4c prints it: {type(error).__name__} {error}") from error


def source_line(item: Json) -> str:
    """`file:line` where p4c recorded it, else an empty string."""
    info = item.get("source_info")
    return f"{info['filename']}:{info['line']}" if info else ""


class _Loader:
    def __init__(self, text: Json) -> None:
        for part, construct in REFUSED_PARTS.items():
            for item in text.get(part, []):
                raise UnsupportedConstruct(f"{construct} (`{item.get('name', '?')}`)", source_line(item))
        self.text = text
        self.headers = self._headers()
        self.header_index = {header.name: i for i, header in enumerate(self.headers)}
        self.field_index = {
            (header.name, f.name): ir.FieldRef(h, i)
            for h, header in enumerate(self.headers)
            for i, f in enumerate(header.fields)
        }
        by_id = {item["id"]: self.header_index[item["name"]] for item in text["headers"]}
        self.stacks = tuple(
            ir.Stack(item["name"], tuple(by_id[i] for i in item["header_ids"]))
            for item in text["header_stacks"]
        )
        self.stack_index = {stack.name: i for i, stack in enumerate(self.stacks)}
        indirect = [item for item in text["counter_arrays"] if not item.get("is_direct")]
        self.counters = tuple(ir.Counter(item["name"], item["size"]) for item in indirect)
        self.registers = tuple(
            ir.Register(item["name"], item["size"], item["bitwidth"]) for item in text["register_arrays"]
        )
        self.counter_index = {counter.name: i for i, counter in enumerate(self.counters)}
        self.register_index = {register.name: i for i, register in enumerate(self.registers)}
        self.action_index = {item["id"]: i for i, item in enumerate(text["actions"])}

    def program(self) -> ir.Program:
        parser = self.text["parsers"][0]
        states = {state["name"]: i for i, state in enumerate(parser["parse_states"])}
        calculations = {item["name"]: item for item in self.text["calculations"]}
        checksums = self.text["checksums"]
        ingress, egress = (
            next(p for p in self.text["pipelines"] if p["name"] == name) for name in ("ingress", "egress")
        )
        return ir.Program(
            headers=self.headers,
            stacks=self.stacks,
            errors={name: code for name, code in self.text["errors"]},
            parser=tuple(self._state(state, states) for state in parser["parse_states"]),
            start_state=states[parser["init_state"]],
            verify=tuple(self._checksum(c, calculations) for c in checksums if c["verify"]),
            actions=tuple(self._action(item) for item in self.text["actions"]),
            ingress=self._control(ingress),
            egress=self._control(egress),
            update=tuple(self._checksum(c, calculations) for c in checksums if c["update"]),
            deparser=tuple(self.header_index[name] for name in self.text["deparsers"][0]["order"]),
            counters=self.counters,
            registers=self.registers,
            field_index=self.field_index,
        )

    # -- headers

    def _headers(self) -> tuple[ir.Header, ...]:
        types: dict[str, tuple[ir.FieldType, ...]] = {}
        for item in self.text["header_types"]:
            for name, width, *signed in item["fields"]:
                if width == "*":
                    raise UnsupportedConstruct(f"varbit field `{item['name']}.{name}`")
                if any(signed):
                    raise UnsupportedConstruct(f"int<> field `{item['name']}.{name}`")
            types[item["name"]] = tuple(ir.FieldType(name, width) for name, width, *_ in item["fields"])
        return tuple(ir.Header(item["name"], types[item["header_type"]]) for item in self.text["headers"])

    def _target(self, value: list[str]) -> ir.FieldRef:
        return self.field_index[value[0], value[1]]

    # -- expressions

    def _expression(self, item: Json, where: str) -> ir.Expression:
        kind, value = item["type"], item["value"]
        match kind:
            case "expression":
                return self._operation(value, where) if "op" in value else self._expression(value, where)
            case "hexstr":
                return ir.Constant(int(value, 16))
            case "bool":
                return ir.Constant(int(value))
            case "field" if value[1] == "$valid$":
                return ir.IsValid(self.header_index[value[0]])
            case "field":
                return self._target(value)
            case "local" | "runtime_data":
                return ir.Parameter(value, self.parameters[value])
        raise UnsupportedConstruct(f"an expression of type `{kind}`", where)

    def _operation(self, item: Json, where: str) -> ir.Expression:
        op = item["op"]
        if op in ("d2b", "b2d"):
            inner = self._expression(item["right"], where)
            zero = ir.Constant(0)
            return ir.Binary(ir.Op.NE, inner, zero) if op == "d2b" and not _is_bool(inner) else inner
        if op == "?":
            parts = (self._expression(item[part], where) for part in ("cond", "left", "right"))
            return ir.Ternary(*parts)
        if op in UNARY_OPS:
            return ir.Unary(UNARY_OPS[op], self._expression(item["right"], where))
        if op in BINARY_OPS:
            left, right = self._expression(item["left"], where), self._expression(item["right"], where)
            return ir.Binary(BINARY_OPS[op], left, right)
        raise UnsupportedConstruct(f"operator `{op}`", where)

    # -- parser

    def _state(self, item: Json, states: dict[str, int]) -> ir.ParserState:
        self.parameters: list[int] = []
        return ir.ParserState(
            name=item["name"],
            operations=tuple(self._parser_op(op, item["name"]) for op in item["parser_ops"]),
            key=tuple(self._key_part(part, item["name"]) for part in item["transition_key"]),
            cases=tuple(self._case(case, states, item["name"]) for case in item["transitions"]),
        )

    def _parser_op(self, item: Json, state: str) -> ir.Extract | ir.Assign:
        where = source_line(item) or f"parser state {state}"
        parameters = item["parameters"]
        match item["op"], parameters[0]["type"]:
            case "extract", "regular":
                return ir.Extract(self.header_index[parameters[0]["value"]], None)
            case "extract", "stack":
                return ir.Extract(None, self.stack_index[parameters[0]["value"]])
            case "set", "field":
                return ir.Assign(self._target(parameters[0]["value"]), self._expression(parameters[1], where))
        raise UnsupportedConstruct(f"parser operation `{item['op']}` ({parameters[0]['type']})", where)

    def _key_part(self, item: Json, state: str) -> ir.FieldRef:
        if item["type"] != "field":
            raise UnsupportedConstruct(f"select on `{item['type']}`", f"parser state {state}")
        return self._target(item["value"])

    def _case(self, item: Json, states: dict[str, int], state: str) -> ir.Case:
        target = None if item["next_state"] is None else states[item["next_state"]]
        match item["type"]:
            case "default":
                return ir.Case(0, 0, target)
            case "hexstr":
                mask = -1 if item["mask"] is None else int(item["mask"], 16)
                return ir.Case(int(item["value"], 16) & mask, mask, target)
        raise UnsupportedConstruct(f"transition of type `{item['type']}`", f"parser state {state}")

    # -- actions

    def _action(self, item: Json) -> ir.Action:
        self.parameters = [data["bitwidth"] for data in item["runtime_data"]]
        body = tuple(self._primitive(p) for p in item["primitives"] if p["op"] != "no_op")
        return ir.Action(item["name"], tuple(self.parameters), body)

    def _primitive(self, item: Json) -> ir.Statement:
        where = source_line(item)
        make: dict[str, Callable[..., ir.Statement]] = {
            "assign": lambda target, value: ir.Assign(self._field(target, where), value()),
            "add_header": lambda header: ir.SetValid(self.header_index[header["value"]]),
            "remove_header": lambda header: ir.SetInvalid(self.header_index[header["value"]]),
            "push": lambda stack, n: ir.Shift(self.stack_index[stack["value"]], _literal(n, where)),
            "pop": lambda stack, n: ir.Shift(self.stack_index[stack["value"]], -_literal(n, where)),
            "count": lambda counter, index: ir.Count(self.counter_index[counter["value"]], index()),
            "register_read": lambda target, register, index: ir.RegisterRead(
                self._field(target, where), self.register_index[register["value"]], index()
            ),
            "register_write": lambda register, index, value: ir.RegisterWrite(
                self.register_index[register["value"]], index(), value()
            ),
            "mark_to_drop": lambda _standard_metadata: ir.MarkToDrop(),
            "exit": ir.Exit,
        }
        if item["op"] not in make:
            raise UnsupportedConstruct(f"primitive `{item['op']}`", where)
        return make[item["op"]](*(_Operand(self, p, where) for p in item["parameters"]))

    def _field(self, operand: _Operand, where: str) -> ir.FieldRef:
        if operand["type"] != "field" or operand["value"][1] == "$valid$":
            raise UnsupportedConstruct(f"assignment to `{operand['value']}` ({operand['type']})", where)
        return self._target(operand["value"])

    # -- controls

    def _control(self, item: Json) -> ir.Control:
        for profile in item.get("action_profiles", []):
            raise UnsupportedConstruct(f"action profile `{profile['name']}`", source_line(profile))
        self.parameters = []
        nodes: dict[str, ir.Table | ir.Conditional] = {t["name"]: self._table(t) for t in item["tables"]}
        for c in item["conditionals"]:
            condition = self._expression(c["expression"], source_line(c))
            nodes[c["name"]] = ir.Conditional(c["name"], condition, c["true_next"], c["false_next"])
        return ir.Control(item["name"], item["init_table"], nodes)

    def _table(self, item: Json) -> ir.Table:
        where, name = source_line(item), item["name"]
        if item["type"] != "simple":
            raise UnsupportedConstruct(f"table `{name}` of type {item['type']}", where)
        if item.get("direct_meters"):
            raise UnsupportedConstruct(f"direct meter of table `{name}`", where)
        if item.get("support_timeout"):
            raise UnsupportedConstruct(f"idle timeout of table `{name}`", where)
        actions = tuple(self.action_index[i] for i in item["action_ids"])
        key = tuple(self._key_field(field, name, where) for field in item["key"])
        default = item.get("default_entry")
        if default is None:
            raise UnsupportedConstruct(f"table `{name}` without a default action", where)
        nexts = item["next_tables"]
        by_name = dict(zip(item["actions"], actions, strict=True))
        fallback = item["base_default_next"]
        return ir.Table(
            name=name,
            key=key,
            actions=actions,
            default=self._invocation(default),
            default_is_const=bool(default.get("action_const")),
            const_entries=tuple(self._const_entry(entry, key) for entry in item.get("entries", [])),
            size=item["max_size"],
            has_counter=bool(item["with_counters"]),
            next_nodes={index: nexts.get(action, fallback) for action, index in by_name.items()},
            next_on_hit=nexts.get("__HIT__"),
            next_on_miss=nexts.get("__MISS__"),
            branches_on_hit="__HIT__" in nexts,
        )

    def _key_field(self, item: Json, table: str, where: str) -> ir.KeyField:
        if item["match_type"] not in MATCH_KINDS:
            raise UnsupportedConstruct(f"{item['match_type']} key `{item['name']}` of table `{table}`", where)
        if item.get("mask") is not None:
            raise UnsupportedConstruct(f"masked key `{item['name']}` of table `{table}`", where)
        kind = MATCH_KINDS[item["match_type"]]
        header, field = item["target"]
        if field == "$valid$":
            return ir.KeyField(item["name"], ir.IsValid(self.header_index[header]), 1, kind)
        source = self._target(item["target"])
        width = self.headers[source.header].fields[source.field].width
        return ir.KeyField(item["name"], source, width, kind)

    def _const_entry(self, item: Json, key: tuple[ir.KeyField, ...]) -> ir.ConstEntry:
        parts = zip(item["match_key"], key, strict=True)
        matches = tuple(_match(match, part.width) for match, part in parts)
        # BMv2's smaller priority wins, P4Runtime's larger.
        has_priority = any(part.kind.takes_priority for part in key)
        priority = TOP_PRIORITY - item["priority"] if has_priority else 0
        return ir.ConstEntry(matches, priority, self._invocation(item["action_entry"]))

    def _invocation(self, item: Json) -> ir.Invocation:
        args = tuple(int(value, 16) for value in item["action_data"])
        return ir.Invocation(self.action_index[item["action_id"]], args)

    # -- checksums

    def _checksum(self, item: Json, calculations: dict[str, Json]) -> ir.Checksum:
        calculation = calculations[item["calculation"]]
        where = source_line(item)
        if calculation["algo"] != "csum16":
            raise UnsupportedConstruct(f"checksum algorithm `{calculation['algo']}`", where)
        inputs: list[ir.FieldRef | ir.Constant] = []
        widths: list[int] = []
        for part in calculation["input"]:
            match part["type"]:
                case "field":
                    ref = self._target(part["value"])
                    inputs.append(ref)
                    widths.append(self.headers[ref.header].fields[ref.field].width)
                case "hexstr":
                    inputs.append(ir.Constant(int(part["value"], 16)))
                    widths.append(part["bitwidth"])
                case kind:
                    raise UnsupportedConstruct(f"checksum over `{kind}`", where)
        if sum(widths) % 8:
            raise UnsupportedConstruct(f"checksum over {sum(widths)} bits, not whole bytes", where)
        condition = item.get("if_cond")
        met = ir.Constant(1) if condition is None else self._expression(condition, where)
        return ir.Checksum(self._target(item["target"]), tuple(inputs), tuple(widths), met)


class _Operand:
    """A primitive's operand: its JSON, and when called the expression that it stands for."""

    def __init__(self, loader: _Loader, item: Json, where: str) -> None:
        self._loader, self._item, self._where = loader, item, where

    def __getitem__(self, part: str) -> Any:
        return self._item[part]

    def __call__(self) -> ir.Expression:
        return self._loader._expression(self._item, self._where)


def _literal(operand: _Operand, where: str) -> int:
    if operand["type"] != "hexstr":
        raise UnsupportedConstruct("push or pop by a computed count", where)
    return int(operand["value"], 16)


def _is_bool(expression: ir.Expression) -> bool:
    match expression:
        case ir.IsValid():
            return True
        case ir.Constant(value):
            return value in (0, 1)
        case ir.Binary(op):
            return op in (
                ir.Op.EQ,
                ir.Op.NE,
                ir.Op.LT,
                ir.Op.GT,
                ir.Op.LE,
                ir.Op.GE,
                ir.Op.BOOL_AND,
                ir.Op.BOOL_OR,
            )
        case ir.Unary(op):
            return op is ir.Op.NOT
    return False


def _match(item: Json, width: int) -> ir.Match:
    """What a constant entry asks of one key field of `width` bits."""
    full = (1 << width) - 1
    match item["match_type"]:
        case "exact":
            return int(item["key"], 16)
        case "lpm":
            mask = full & ~(full >> item["prefix_length"])
            return ir.Masked(int(item["key"], 16) & mask, mask)
        case "range":
            return ir.Between(int(item["start"], 16), int(item["end"], 16))
    mask = int(item["mask"], 16) if "mask" in item else full
    return ir.Masked(int(item["key"], 16) & mask, mask)
