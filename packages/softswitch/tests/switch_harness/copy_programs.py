"""Draw P4 programs that pass copies: primitives and externs on `inout` parameters, in nested calls.

`python -m switch_harness.copy_programs FOLDER [--count N] [--seed N]`, from the folder tests, writes programs
into a folder, and `python -m switch_harness.beside_bmv2 FOLDER` compares them with BMv2.

Fields of invalid headers are not read, since BMv2 then gives what an earlier packet left.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from switch_harness.beside_bmv2 import compiled_program

_TYPES = """#include <core.p4>
#include <v1model.p4>

header first_t { bit<8> a; bit<16> b; bit<32> c; bit<8> d; }
header item_t { bit<8> kind; bit<24> value; }
struct counts_t { bit<8> x; bit<16> y; bit<32> z; }
struct headers_t { first_t first; first_t second; item_t[3] items; first_t spare; }
struct metadata_t {
    counts_t counts;
    @field_list(1) counts_t kept;
    @field_list(1) bit<8> passes;
}
"""
_PARSER = """
parser Items(packet_in packet, inout headers_t hdr, inout counts_t counts) {
    state start {
        counts.x = counts.x + 1;
        transition select(packet.lookahead<bit<8>>()) {
            1: item;
            2: twice;
            default: accept;
        }
    }
    state item { packet.extract(hdr.items.next); transition accept; }
    state twice { packet.extract(hdr.items.next); packet.extract(hdr.items.next); transition accept; }
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Items() items;
    state start {
        packet.extract(hdr.first);
        meta.counts = { hdr.first.a, hdr.first.b, hdr.first.c };
        transition select(hdr.first.d) {
            1: second;
            2: items_first;
            default: accept;
        }
    }
    state second { packet.extract(hdr.second); transition items_first; }
    state items_first { items.apply(packet, hdr, meta.counts); transition accept; }
}
"""
_END = """
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), Receive(), Leave(), Compute(), Deparse()) main;
"""
_PARAMETERS = {
    "std": "standard_metadata_t",
    "first": "first_t",
    "items": "item_t[3]",
    "counts": "counts_t",
    "hdr": "headers_t",
    "meta": "metadata_t",
}
_ARGUMENTS = {
    "std": ["std"],
    "first": ["first", "hdr.first", "hdr.second", "hdr.spare"],
    "items": ["items", "hdr.items"],
    "counts": ["counts", "meta.counts", "meta.kept"],
    "hdr": ["hdr"],
    "meta": ["meta"],
}
"""What may be given for a parameter, by names of the caller's."""
_FIELDS = {
    8: ["first.a", "first.d", "counts.x", "meta.counts.x", "hdr.first.d"],
    16: ["first.b", "counts.y", "meta.kept.y", "hdr.second.b"],
    32: ["first.c", "counts.z", "meta.counts.z", "hdr.first.c"],
}
_ALGORITHMS = ["crc16", "crc32", "csum16", "identity", "xor16"]


@dataclass
class _Callable:
    name: str
    parameters: list[str]
    call: str = "{}({});"


@dataclass
class _Scope:
    """What the statements of a body may use: parameters, callables, and whether it is ingress."""

    parameters: list[str]
    callables: list[_Callable]
    is_ingress: bool
    has_externs: bool
    externs: str = ""
    used: set[str] = field(default_factory=set)

    def has(self, name: str) -> bool:
        return name.split(".")[0] in self.parameters


class _Drawer:
    def __init__(self, random: Random) -> None:
        self._random = random

    # -- values

    def number(self, scope: _Scope, width: int, depth: int = 2) -> str:
        random = self._random
        names = [name for name in _FIELDS[width] if scope.has(name) and _header_of(name) is None]
        choice = random.random()
        if depth and choice < 0.5:
            left, right = (self.number(scope, width, depth - 1) for _ in range(2))
            return f"({left} {random.choice(['+', '-', '^', '|', '&', '|+|'])} {right})"
        if names and choice < 0.85:
            return random.choice(names)
        return f"{width}w{random.choice([0, 1, 2, 3, (1 << width) - 1, random.randrange(1 << width)])}"

    def index(self, scope: _Scope) -> str:
        return f"(bit<32>)({self.number(scope, 8)} & 3)"

    # -- statements

    def body(self, scope: _Scope, count: int, indent: str) -> list[str]:
        return [indent + line for _ in range(count) for line in self.statement(scope)]

    def statement(self, scope: _Scope) -> list[str]:
        random = self._random
        kinds = [self._fields]
        kinds += [self._first] * 2 * scope.has("first") + [self._items] * 2 * scope.has("items")
        kinds += [self._standard] * 3 * scope.has("std") + [self._headers] * scope.has("hdr")
        kinds += [self._externs] * 3 * (scope.has("counts") and scope.has_externs)
        kinds += [self._call] * 4 * bool(scope.callables)
        lines = random.choice(kinds)(scope)
        if lines and random.random() < 0.4 and "\n" not in "".join(lines):
            condition = f"{self.number(scope, 8, 1)} & {random.choice([1, 2, 4])} == 0"
            return [f"if ({condition}) {{", *("    " + line for line in lines), "}"]
        return lines

    def _fields(self, scope: _Scope) -> list[str]:
        width = self._random.choice([8, 16, 32])
        names = [name for name in _FIELDS[width] if scope.has(name)]
        if not names:
            return []
        name = self._random.choice(names)
        changed = f"{name} = {self.number(scope, width)};"
        header = _header_of(name)
        if header is None:
            return [changed]
        # An invalid header keeps what it is given in both switches, and so does its copy.
        return [f"if ({header}.isValid()) {{ {name} = {name} + {self.number(scope, width)}; }}", changed]

    def _first(self, scope: _Scope) -> list[str]:
        a, b, c, d = (self.number(scope, width) for width in (8, 16, 32, 8))
        algorithm = self._random.choice(_ALGORITHMS)
        return self._random.choice(
            [
                ["first.setInvalid();"],
                [
                    "first.setValid();",
                    *(f"first.{name} = {value};" for name, value in zip("abcd", (a, b, c, d), strict=True)),
                ],
                [f"if (first.isValid()) {{ first_t copy = first; copy.a = copy.d + {a}; first = copy; }}"],
                [f"if (first.isValid()) {{ hash(first.b, HashAlgorithm.{algorithm}, 16w0, "
                 f"{{ first.a, first.c, {b} }}, 32w{self._random.choice([1, 7, 1000, 65535])}); }}"],
                [f"first = {{ {a}, {b}, {c}, {d} }};"],
            ]
        )  # fmt: skip

    def _items(self, scope: _Scope) -> list[str]:
        random = self._random
        one, other = random.sample(range(3), 2)
        kind = self.number(scope, 8)
        return random.choice(
            [
                [f"items.push_front({random.choice([1, 2, 3])});"],
                [f"items.pop_front({random.choice([1, 2, 3])});"],
                [f"items[{one}] = items[{other}];"],
                [f"items[{one}].setInvalid();"],
                [f"items[{one}].setValid();", f"items[{one}] = {{ {kind}, 24w{one} }};"],
                [f"if (items[{one}].isValid()) {{ items[{one}].kind = items[{one}].kind ^ {kind}; }}"],
            ]
        )  # fmt: skip

    def _headers(self, scope: _Scope) -> list[str]:
        assert scope.has("hdr")
        one, other = self._random.sample(["hdr.first", "hdr.second", "hdr.spare"], 2)
        return [f"{one} = {other};"] if self._random.random() < 0.7 else [f"{one}.setInvalid();"]

    def _standard(self, scope: _Scope) -> list[str]:
        random = self._random
        again = "if (std.instance_type == 0) {{ {} }}"
        port = f"std.egress_spec = (bit<9>)({self.number(scope, 8)} & 3);"
        drop = f"if (std.ingress_port == {random.choice([1, 2, 3, 7])}) {{ mark_to_drop(std); }}"
        lines = [drop, port, port, f"truncate((bit<32>)({self.number(scope, 8)} & 31) + 8);"]
        if scope.is_ingress:
            lines += [
                f"std.mcast_grp = (bit<16>)({self.number(scope, 8)} & 3);",
                again.format("clone_preserving_field_list(CloneType.I2E, 1, 1);"),
                again.format("resubmit_preserving_field_list(1);"),
            ]
        else:
            lines += [
                again.format("clone_preserving_field_list(CloneType.E2E, 1, 1);"),
            ]
            if scope.has("meta"):
                lines.append("if (meta.passes < 2) { recirculate_preserving_field_list(1); }")
        return [random.choice(lines)]

    def _externs(self, scope: _Scope) -> list[str]:
        place = scope.externs
        return self._random.choice(
            [
                [f"{place}cells.read(counts.y, {self.index(scope)});"],
                [f"{place}cells.write({self.index(scope)}, counts.y);"],
                [f"{place}seen.count({self.index(scope)});"],
                [f"{place}rate.execute_meter({self.index(scope)}, counts.x);"],
                ["digest<counts_t>(1, counts);"],
                [f'log_msg("counts {{}} {{}}", {{ counts.x, {self.number(scope, 16)} }});'],
            ]
        )

    def _call(self, scope: _Scope) -> list[str]:
        called = self._random.choice(scope.callables)
        arguments = [self._argument(name, scope) for name in called.parameters]
        roots = [argument for argument in arguments if argument is not None]
        if len(roots) < len(arguments) or _overlap(roots):
            return []
        return [called.call.format(called.name, ", ".join(roots))]

    def _argument(self, name: str, scope: _Scope) -> str | None:
        given = [each for each in _ARGUMENTS[name] if scope.has(each)]
        return self._random.choice(given) if given else None

    # -- programs

    def _signature(self, scope: _Scope) -> str:
        return ", ".join(f"inout {_PARAMETERS[name]} {name}" for name in scope.parameters)

    def _parameters(self) -> list[str]:
        names = list(_PARAMETERS)
        return sorted(self._random.sample(names, self._random.choice([1, 2, 2, 3])), key=names.index)

    def program(self) -> str:
        random = self._random
        functions: list[_Callable] = []
        text = _TYPES
        for number in range(random.randrange(2, 5)):
            scope = _Scope(self._parameters(), list(functions), False, False)
            scope.parameters = [name for name in scope.parameters if name != "std"] or ["counts"]
            lines = self.body(scope, random.randrange(1, 4), "    ")
            if random.random() < 0.3:
                lines.insert(random.randrange(len(lines) + 1) if _is_flat(lines) else 0,
                             f"    if ({self.number(scope, 8)} == 3) {{ return; }}")  # fmt: skip
            text += f"\nvoid function_{number}({self._signature(scope)}) {{\n" + "\n".join(lines) + "\n}\n"
            functions.append(_Callable(f"function_{number}", scope.parameters))
        functions.append(_Callable("drop_given", ["std"]))
        text += "\nvoid drop_given(inout standard_metadata_t std) {\n"
        text += "    if (std.ingress_port == 2) { mark_to_drop(std); }\n}\n" + _PARSER
        for name, is_ingress in (("Receive", True), ("Leave", False)):
            text += self._control(f"{name}Part", functions, is_ingress, ["hdr", "counts", "std"], None)
            part = _Callable("part", ["hdr", "counts", "std"], "{}.apply({});")
            text += self._control(name, functions, is_ingress, ["hdr", "meta", "std"], part)
        return text + _END

    def _control(
        self,
        name: str,
        functions: Sequence[_Callable],
        is_ingress: bool,
        parameters: list[str],
        part: _Callable | None,
    ) -> str:
        random = self._random
        lines = [f"{name}Part() part;"] if part is not None else []
        lines += [
            "register<bit<16>>(4) cells;",
            "counter(4, CounterType.packets_and_bytes) seen;",
            "meter(4, MeterType.packets) rate;",
        ]
        callables = list(functions)
        actions: list[_Callable] = []
        for number in range(random.randrange(2, 5)):
            scope = _Scope(self._parameters(), list(callables), is_ingress, True)
            inner = self.body(scope, random.randrange(1, 4), "    ")
            if random.random() < 0.2:
                inner.append("    exit;")
            lines += [f"action change_{number}({self._signature(scope)}) {{", *inner, "}"]
            actions.append(_Callable(f"change_{number}", scope.parameters))
            callables.append(actions[-1])
        outer = _Scope(parameters, callables + ([part] if part is not None else []), is_ingress, True)
        bound = [self._bound(action, outer) for action in actions]
        listed = " ".join(f"{each};" for each in dict.fromkeys(bound) if each)
        key = "hdr.first.a: ternary; hdr.second.d: exact; " + (
            "counts.x: exact;" if "counts" in parameters else "meta.counts.x: ternary;"
        )
        lines += [f"table choose {{ key = {{ {key} }} actions = {{ {listed} NoAction; }} size = 64; }}"]
        body = self.body(outer, random.randrange(3, 7), "    ")
        body.insert(0, "    choose.apply();")
        if part is not None and is_ingress:
            body.insert(0, "    std.egress_spec = (bit<9>)(hdr.first.a & 3);")
            body.insert(0, "    meta.passes = meta.passes + 1;")
        lines += ["apply {", *body, "}"]
        types = ", ".join(f"inout {_PARAMETERS[each]} {each}" for each in parameters)
        return f"\ncontrol {name}({types}) {{\n" + "\n".join("    " + line for line in lines) + "\n}\n"

    def _bound(self, action: _Callable, scope: _Scope) -> str:
        """Return an action of a table with its `inout` arguments; nothing if they are not there."""
        arguments = [self._argument(name, scope) for name in action.parameters]
        roots = [argument for argument in arguments if argument is not None]
        if len(roots) < len(arguments) or _overlap(roots):
            return ""
        return f"{action.name}({', '.join(roots)})"


def _header_of(name: str) -> str | None:
    """Return the header whose field a name is, as far as it may be invalid."""
    root, _, _ = name.rpartition(".")
    return root if root in ("first", "hdr.first", "hdr.second") else None


def _overlap(names: Sequence[str]) -> bool:
    return any(
        one == other or other.startswith(one + ".")
        for place, one in enumerate(names)
        for position, other in enumerate(names)
        if place != position
    )


def _is_flat(lines: Sequence[str]) -> bool:
    return not any(line.rstrip().endswith("{") or line.strip() == "}" for line in lines)


def draw_program(seed: int) -> str:
    return _Drawer(Random(seed)).program()


def compile_drawn(seed: int, folder: Path) -> Path:
    (folder / "drawn.p4").write_text(draw_program(seed))
    program = compiled_program(folder / "drawn.p4", folder)
    assert program is not None, f"p4c refuses the program of seed {seed}"
    return program


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--count", type=int, default=20, help="programs (20)")
    parser.add_argument("--seed", type=int, default=1, help="of the first program (1)")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for seed in range(options.seed, options.seed + options.count):
        (options.folder / f"copies_{seed}.p4").write_text(draw_program(seed))


if __name__ == "__main__":
    main()
