"""Types of drawn programs, and the variables of a scope."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Bits:
    width: int
    is_signed: bool = False

    @property
    def text(self) -> str:
        return f"{'int' if self.is_signed else 'bit'}<{self.width}>"


@dataclass(frozen=True, slots=True)
class Bool:
    text: str = "bool"


@dataclass(frozen=True, slots=True)
class Enum:
    """An enum; `underlying` is the width of the values of a serializable one."""

    text: str
    members: tuple[str, ...]
    underlying: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A struct or a header."""

    text: str
    is_header: bool
    fields: tuple[tuple[str, Kind], ...]


@dataclass(frozen=True, slots=True)
class Tuple:
    elements: tuple[Kind, ...]

    @property
    def text(self) -> str:
        return f"tuple<{', '.join(each.text for each in self.elements)}>"


@dataclass(frozen=True, slots=True)
class Stack:
    element: Record
    size: int

    @property
    def text(self) -> str:
        return f"{self.element.text}[{self.size}]"


Kind = Bits | Bool | Enum | Record | Tuple | Stack
BOOL = Bool()


@dataclass(frozen=True, slots=True)
class Leaf:
    """A variable or a part of one. Reading it is safe only if the header `guard`, if any, is valid."""

    text: str
    kind: Kind
    is_writable: bool
    guard: str = ""


def leaves(variable: Leaf) -> list[Leaf]:
    """Return a variable with all its parts."""
    found = [variable]
    match variable.kind:
        case Record(is_header=is_header, fields=fields):
            guard = variable.text if is_header and variable.guard else ""
            for name, kind in fields:
                found += leaves(Leaf(f"{variable.text}.{name}", kind, variable.is_writable, guard))
        case Tuple(elements):
            for i, kind in enumerate(elements):
                found += leaves(Leaf(f"{variable.text}[{i}]", kind, False))
        case Stack(element, size):
            for i in range(size):
                found += leaves(Leaf(f"{variable.text}[{i}]", element, variable.is_writable, "doubtful"))
    return found


@dataclass(slots=True)
class Function:
    """Something to call: a function, an action, or an instance of a control."""

    name: str
    parameters: tuple[tuple[str, str, Kind], ...]
    """Directions, names and kinds."""
    returned: Kind | None = None
    is_single: bool = False
    """Whether it has tables, so that an instance can be applied at one place only."""


@dataclass(slots=True)
class Table:
    name: str
    actions: tuple[str, ...]


@dataclass(slots=True)
class Scope:
    """What may be used at a place of a program."""

    variables: list[Leaf] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    actions: list[Function] = field(default_factory=list)
    controls: list[Function] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    """Those that are not applied yet: the switch applies a table at one place."""
    registers: list[tuple[str, Kind, int]] = field(default_factory=list)
    counters: list[tuple[str, int]] = field(default_factory=list)
    place: str = "control"
    """`control`, `action`, `function` or `parser`."""
    returned: Kind | None = None
    loops: int = 0

    def inner(self, **changes: object) -> Scope:
        made = Scope(
            list(self.variables), self.functions, self.actions, self.controls, self.tables, self.registers,
            self.counters, self.place, self.returned, self.loops,
        )  # fmt: skip
        for name, value in changes.items():
            setattr(made, name, value)
        return made

    def add(self, name: str, kind: Kind, is_writable: bool = True, guard: str = "") -> None:
        """Add a variable, which hides others of its name."""
        self.variables = [v for v in self.variables if _root(v.text) != name]
        self.variables += leaves(Leaf(name, kind, is_writable, guard))


def _root(text: str) -> str:
    return text.split(".")[0].split("[")[0]
