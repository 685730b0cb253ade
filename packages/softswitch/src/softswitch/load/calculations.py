from __future__ import annotations

from softswitch import ir
from softswitch.errors import UnsupportedConstruct
from softswitch.hashing import ALGORITHMS
from softswitch.load.expressions import Expressions
from softswitch.load.scope import VALIDITY_FIELD, Json, Scope, source_line

_DEFAULT_CONSTANT_BITS = 32  # width of a constant whose width the JSON omits


def load_calculation(scope: Scope, item: Json, name: str) -> ir.Calculation:
    if item["algo"] not in ALGORITHMS:
        supported = ", ".join(ALGORITHMS)
        raise UnsupportedConstruct(
            f"hash algorithm `{item['algo']}` (supported: {supported})", source_line(item)
        )
    is_payload = [part["type"] == "payload" for part in item["input"]]
    if True in is_payload[:-1]:
        raise UnsupportedConstruct(f"calculation `{name}` with inputs after the payload", source_line(item))
    inputs = tuple(_load_input(scope, part, name) for part in item["input"] if part["type"] != "payload")
    return ir.Calculation(name, item["algo"], inputs, any(is_payload), source_line(item))


def _load_input(scope: Scope, item: Json, name: str) -> ir.CalculationInput:
    match item["type"]:
        case "field":
            return scope.field(item["value"])
        case "hexstr":
            return ir.SizedConstant(int(item["value"], 16), item["bitwidth"])
        case "header":
            return ir.WholeHeader(scope.header_index[item["value"]])
    raise UnsupportedConstruct(f"calculation `{name}` over `{item['type']}`")


def load_checksum(scope: Scope, item: Json) -> ir.Checksum:
    condition = item.get("if_cond")
    expressions = Expressions(scope, source_line(item))
    condition = ir.Constant(1) if condition is None else expressions.value(condition)
    return ir.Checksum(scope.field(item["target"]), scope.calculation_index[item["calculation"]], condition)


def load_field_list(scope: Scope, item: Json) -> ir.FieldList:
    values: list[ir.FieldRef | ir.SizedConstant] = []
    for element in item["elements"]:
        match element["type"]:
            case "field" if element["value"][1] != VALIDITY_FIELD:
                values.append(scope.field(element["value"]))
            case "field":
                raise UnsupportedConstruct(
                    f"the validity of a header in the list `{item['name']}`", source_line(item)
                )
            case "hexstr":
                width = element.get("bitwidth", _DEFAULT_CONSTANT_BITS)
                values.append(ir.SizedConstant(int(element["value"], 16), width))
            case kind:
                raise UnsupportedConstruct(f"`{kind}` in the list `{item['name']}`", source_line(item))
    return ir.FieldList(item["id"], item["name"], tuple(values))
