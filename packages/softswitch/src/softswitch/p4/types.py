"""Types of P4 after names are resolved; equal types are equal values (specification, §7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from softswitch.p4 import tree


@dataclass(frozen=True, slots=True)
class Bits:
    """`bit<width>`, or `int<width>` if it is signed."""

    width: int
    signed: bool = False

    def __str__(self) -> str:
        return f"{'int' if self.signed else 'bit'}<{self.width}>"


@dataclass(frozen=True, slots=True)
class Varbit:
    width: int

    def __str__(self) -> str:
        return f"varbit<{self.width}>"


@dataclass(frozen=True, slots=True)
class Simple:
    """A type without parts: `int`, `bool`, `error`, `string`, `void`, `match_kind`, or `_`."""

    name: str

    def __str__(self) -> str:
        return self.name


INT, BOOL, ERROR, STRING, VOID = map(Simple, ("int", "bool", "error", "string", "void"))
MATCH_KIND, UNKNOWN, STATE, PACKET = map(Simple, ("match_kind", "_", "state", "packet"))


@dataclass(frozen=True, slots=True)
class Variable:
    """A type parameter of a generic declaration."""

    name: str
    owner: tree.Node

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct, header or header union, with the arguments of a generic one."""

    declaration: tree.Struct
    arguments: tuple[Type, ...] = ()

    @property
    def kind(self) -> str:
        return self.declaration.kind

    def __str__(self) -> str:
        return _generic_text(self.declaration.name, self.arguments)


@dataclass(frozen=True, slots=True)
class Tuple:
    elements: tuple[Type, ...]

    def __str__(self) -> str:
        return _generic_text("tuple", self.elements)


@dataclass(frozen=True, slots=True)
class List:
    element: Type

    def __str__(self) -> str:
        return f"list<{self.element}>"


@dataclass(frozen=True, slots=True)
class Stack:
    """A header stack, or a stack of header unions."""

    element: Type
    size: int

    def __str__(self) -> str:
        return f"{self.element}[{self.size}]"


@dataclass(frozen=True, slots=True)
class Enum:
    """An enum; `underlying` is the type of the values of a serializable one."""

    declaration: tree.Enum
    underlying: Bits | None

    def __str__(self) -> str:
        return self.declaration.name


@dataclass(frozen=True, slots=True)
class New:
    """A type that `type` declares, which needs a cast to and from its base."""

    declaration: tree.Typedef
    base: Type

    def __str__(self) -> str:
        return self.declaration.name


@dataclass(frozen=True, slots=True)
class Object:
    """The type of an instance: an extern, a control, a parser or a package."""

    declaration: tree.Extern | tree.Control | tree.Parser | tree.Package
    arguments: tuple[Type, ...] = ()

    def __str__(self) -> str:
        return _generic_text(self.declaration.name, self.arguments)


@dataclass(frozen=True, slots=True)
class Named:
    """The type of the name of an action, a table, a function, a state, a type or a value set."""

    declaration: tree.Declaration

    def __str__(self) -> str:
        return self.declaration.name


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The type of the result of `table.apply()`."""

    table: tree.Table

    def __str__(self) -> str:
        return f"apply_result({self.table.name})"


@dataclass(frozen=True, slots=True)
class ActionRun:
    """The type of `table.apply().action_run`."""

    table: tree.Table

    def __str__(self) -> str:
        return f"action_list({self.table.name})"


@dataclass(frozen=True, slots=True)
class StructValue:
    """The type of `{a = 1, b = 2}` before it is known which struct it is."""

    names: tuple[str, ...]
    elements: tuple[Type, ...]

    def __str__(self) -> str:
        return (
            "struct {" + ", ".join(f"{t} {n}" for n, t in zip(self.names, self.elements, strict=True)) + "}"
        )


@dataclass(frozen=True, slots=True)
class Set:
    """A set of values in a select or an entry."""

    element: Type

    def __str__(self) -> str:
        return f"set<{self.element}>"


Type = (
    Bits | Varbit | Simple | Variable | Struct | Tuple | List | Stack | Enum | New | Object | Named
    | ApplyResult | ActionRun | StructValue | Set
)  # fmt: skip
Substitution = Mapping[Variable, Type]


def _generic_text(name: str, arguments: tuple[Type, ...]) -> str:
    return f"{name}<{', '.join(map(str, arguments))}>" if arguments else name


def substitute(given: Type, values: Substitution) -> Type:
    """Return a type with type parameters replaced by their values, repeatedly."""
    if not values:
        return given
    match given:
        case Variable():
            value = values.get(given)
            return given if value is None or value == given else substitute(value, values)
        case Struct(declaration, arguments) if arguments:
            return Struct(declaration, tuple(substitute(each, values) for each in arguments))
        case Object(declaration, arguments) if arguments:
            return Object(declaration, tuple(substitute(each, values) for each in arguments))
        case Tuple(elements):
            return Tuple(tuple(substitute(each, values) for each in elements))
        case StructValue(names, elements):
            return StructValue(names, tuple(substitute(each, values) for each in elements))
        case List(element):
            return List(substitute(element, values))
        case Set(element):
            return Set(substitute(element, values))
        case Stack(element, size):
            return Stack(substitute(element, values), size)
        case New(declaration, base):
            return New(declaration, substitute(base, values))
    return given


def has_variables(given: Type) -> bool:
    match given:
        case Variable():
            return True
        case Struct(_, parts) | Object(_, parts) | Tuple(parts) | StructValue(_, parts):
            return any(map(has_variables, parts))
        case List(part) | Set(part) | Stack(part, _) | New(_, part):
            return has_variables(part)
    return given == UNKNOWN


def count_parts(given: Type) -> int:
    """Return the number of types in a type, itself included; fields of structs do not count."""
    match given:
        case Struct(_, parts) | Object(_, parts) | Tuple(parts):
            return 1 + sum(map(count_parts, parts))
        case List(part) | Stack(part, _) | New(_, part):
            return 1 + count_parts(part)
    return 1


def base_of(given: Type) -> Type:
    """Return the type under `type` declarations."""
    while isinstance(given, New):
        given = given.base
    return given


def representation(given: Type) -> Type:
    """Return the type of the bits of a value: those of an enum, of an error, of a `type`."""
    given = base_of(given)
    if isinstance(given, Enum):
        return given.underlying or Bits(32)
    return Bits(32) if given == ERROR else given


def is_header(given: Type) -> bool:
    return isinstance(given, Struct) and given.kind == "header"


def is_union(given: Type) -> bool:
    return isinstance(given, Struct) and given.kind == "header_union"


def is_struct(given: Type) -> bool:
    return isinstance(given, Struct) and given.kind == "struct"


def is_numeric(given: Type) -> bool:
    return isinstance(given, Bits) or given == INT
