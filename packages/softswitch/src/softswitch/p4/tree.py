"""The syntax tree: records with the position where each begins. Nodes are compared by identity."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from softswitch.p4.diagnostics import Position
from softswitch.p4.lexer import Token, TokenKind, parse_integer


@dataclass(slots=True, eq=False)
class Node:
    position: Position


# -- annotations


@dataclass(slots=True, eq=False)
class Annotation(Node):
    """`@name(...)` or `@name[...]` with the tokens between the brackets."""

    name: str
    tokens: list[Token]
    is_structured: bool = False
    """Whether the brackets are square."""

    @property
    def strings(self) -> list[str]:
        """The strings among the tokens, in order, without quotes."""
        return [unquote(token.text) for token in self.tokens if token.kind is TokenKind.STRING]

    @property
    def text(self) -> str:
        """The first string, or else the tokens as they are written."""
        strings = self.strings
        return strings[0] if strings else "".join(token.text for token in self.tokens)

    @property
    def integers(self) -> list[int]:
        return [parse_integer(token.text)[0] for token in self.tokens if token.kind is TokenKind.INTEGER]


Annotations = list[Annotation]


def unquote(text: str) -> str:
    return text[1:-1].replace('\\"', '"').replace("\\\\", "\\")


# -- types


@dataclass(slots=True, eq=False)
class BaseType(Node):
    """`bool`, `int`, `error`, `string`, `void`, `match_kind`, or `_`."""

    name: str


@dataclass(slots=True, eq=False)
class SizedType(Node):
    """`bit<width>`, `int<width>` or `varbit<width>`."""

    name: str
    width: Expression


@dataclass(slots=True, eq=False)
class NamedType(Node):
    name: str
    is_global: bool = False


@dataclass(slots=True, eq=False)
class SpecializedType(Node):
    """A generic type with its arguments; `tuple` and `list` are names, too."""

    base: NamedType
    arguments: list[TypeNode]


@dataclass(slots=True, eq=False)
class StackType(Node):
    element: TypeNode
    size: Expression


TypeNode = BaseType | SizedType | NamedType | SpecializedType | StackType


# -- expressions


@dataclass(slots=True, eq=False)
class Integer(Node):
    value: int
    width: int | None
    is_signed: bool
    text: str = ""


@dataclass(slots=True, eq=False)
class Boolean(Node):
    value: bool


@dataclass(slots=True, eq=False)
class String(Node):
    text: str


@dataclass(slots=True, eq=False)
class Name(Node):
    name: str
    is_global: bool = False


@dataclass(slots=True, eq=False)
class Member(Node):
    base: Expression
    name: str


@dataclass(slots=True, eq=False)
class TypeReference(Node):
    """A type where an expression stands: `error.NoError`, `Header<T>.minSizeInBytes()`."""

    type: TypeNode


@dataclass(slots=True, eq=False)
class Index(Node):
    base: Expression
    index: Expression


@dataclass(slots=True, eq=False)
class Slice(Node):
    """`base[high:low]`, or `base[low +: width]` with `high` None."""

    base: Expression
    high: Expression | None
    low: Expression
    width: Expression | None = None


@dataclass(slots=True, eq=False)
class Unary(Node):
    operator: str
    operand: Expression


@dataclass(slots=True, eq=False)
class Binary(Node):
    operator: str
    left: Expression
    right: Expression


@dataclass(slots=True, eq=False)
class Ternary(Node):
    condition: Expression
    left: Expression
    right: Expression


@dataclass(slots=True, eq=False)
class Cast(Node):
    type: TypeNode
    operand: Expression


@dataclass(slots=True, eq=False)
class Argument(Node):
    """An argument; `value` is None for `_`."""

    name: str | None
    value: Expression | None


@dataclass(slots=True, eq=False)
class Call(Node):
    function: Expression
    type_arguments: list[TypeNode]
    arguments: list[Argument]


@dataclass(slots=True, eq=False)
class ListExpression(Node):
    """`{a, b}`, or `(a, b)` in a select; with `has_rest` it ends in `...`."""

    elements: list[Expression]
    has_rest: bool = False


@dataclass(slots=True, eq=False)
class NamedValue(Node):
    name: str
    value: Expression


@dataclass(slots=True, eq=False)
class StructExpression(Node):
    """`{a = 1, b = 2}`; with `has_rest` it ends in `...`."""

    fields: list[NamedValue]
    has_rest: bool = False


@dataclass(slots=True, eq=False)
class InvalidHeader(Node):
    """An invalid header as a value: `{#}`."""


@dataclass(slots=True, eq=False)
class Default(Node):
    """`default` or `_` in a set, or `...` as a value."""

    text: str


@dataclass(slots=True, eq=False)
class Mask(Node):
    value: Expression
    mask: Expression


@dataclass(slots=True, eq=False)
class Range(Node):
    low: Expression
    high: Expression


Expression = (
    Integer | Boolean | String | Name | Member | TypeReference | Index | Slice | Unary | Binary | Ternary
    | Cast | Call | ListExpression | StructExpression | InvalidHeader | Default | Mask | Range
)  # fmt: skip


# -- statements


@dataclass(slots=True, eq=False)
class Assignment(Node):
    """`target = value`, or with an operator `target op= value`."""

    target: Expression
    operator: str
    value: Expression


@dataclass(slots=True, eq=False)
class CallStatement(Node):
    call: Call


@dataclass(slots=True, eq=False)
class Conditional(Node):
    condition: Expression
    then: Statement
    otherwise: Statement | None


@dataclass(slots=True, eq=False)
class Block(Node):
    statements: list[Statement]
    annotations: Annotations = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Return(Node):
    value: Expression | None


@dataclass(slots=True, eq=False)
class Exit(Node):
    pass


@dataclass(slots=True, eq=False)
class Empty(Node):
    pass


@dataclass(slots=True, eq=False)
class Break(Node):
    pass


@dataclass(slots=True, eq=False)
class Continue(Node):
    pass


@dataclass(slots=True, eq=False)
class SwitchCase(Node):
    """A label, and its block, or None where it shares the next one."""

    label: Expression
    body: Block | None


@dataclass(slots=True, eq=False)
class Switch(Node):
    value: Expression
    cases: list[SwitchCase]


@dataclass(slots=True, eq=False)
class For(Node):
    initial: list[Statement]
    condition: Expression
    updates: list[Statement]
    body: Statement
    annotations: Annotations = field(default_factory=list)


@dataclass(slots=True, eq=False)
class ForIn(Node):
    """`for (type name in collection)`; without a type the name is a variable's."""

    type: TypeNode | None
    name: str
    collection: Expression
    body: Statement
    annotations: Annotations = field(default_factory=list)


# -- declarations


@dataclass(slots=True, eq=False)
class Declaration(Node):
    name: str
    annotations: Annotations

    def annotation(self, name: str) -> Annotation | None:
        return next((each for each in self.annotations if each.name == name), None)


Direction = Literal["", "in", "out", "inout"]
DIRECTIONS: tuple[Direction, ...] = ("in", "out", "inout")
StructKind = Literal["struct", "header", "header_union"]
STRUCT_KINDS: tuple[StructKind, ...] = ("struct", "header", "header_union")


@dataclass(slots=True, eq=False)
class Parameter(Declaration):
    direction: Direction
    type: TypeNode
    default: Expression | None = None


@dataclass(slots=True, eq=False)
class Constant(Declaration):
    type: TypeNode
    value: Expression


@dataclass(slots=True, eq=False)
class Variable(Declaration):
    type: TypeNode
    initial: Expression | None


@dataclass(slots=True, eq=False)
class Instance(Declaration):
    """`Type(arguments) name;` with the functions of an abstract extern's body."""

    type: TypeNode
    arguments: list[Argument]
    body: list[Declaration]
    has_body: bool = False


@dataclass(slots=True, eq=False)
class Typedef(Declaration):
    """`typedef`, or `type` with `is_new`."""

    type: TypeNode
    is_new: bool


@dataclass(slots=True, eq=False)
class Field(Declaration):
    type: TypeNode


@dataclass(slots=True, eq=False)
class Struct(Declaration):
    kind: StructKind
    type_parameters: list[str]
    fields: list[Field]


@dataclass(slots=True, eq=False)
class EnumMember(Declaration):
    value: Expression | None


@dataclass(slots=True, eq=False)
class Enum(Declaration):
    underlying: TypeNode | None
    members: list[EnumMember]


@dataclass(slots=True, eq=False)
class Names(Declaration):
    """`error { ... }` or `match_kind { ... }`; the name is `error` or `match_kind`."""

    members: list[EnumMember]


@dataclass(slots=True, eq=False)
class Function(Declaration):
    """A function, a method, or a constructor, which has no return type; without a body if it is extern."""

    type_parameters: list[str]
    return_type: TypeNode | None
    parameters: list[Parameter]
    body: Block | None
    is_abstract: bool = False


@dataclass(slots=True, eq=False)
class Extern(Declaration):
    type_parameters: list[str]
    methods: list[Function]


@dataclass(slots=True, eq=False)
class Action(Declaration):
    parameters: list[Parameter]
    body: Block


@dataclass(slots=True, eq=False)
class KeyElement(Node):
    expression: Expression
    kind: str
    annotations: Annotations


@dataclass(slots=True, eq=False)
class ActionReference(Node):
    """An action of a table, with the arguments of its parameters that have a direction."""

    name: str
    is_global: bool
    arguments: list[Argument]
    annotations: Annotations


@dataclass(slots=True, eq=False)
class Entry(Node):
    keys: list[Expression]
    action: Call | Name
    priority: Expression | None
    is_const: bool
    annotations: Annotations


@dataclass(slots=True, eq=False)
class Property(Declaration):
    is_const: bool
    value: Expression


@dataclass(slots=True, eq=False)
class Table(Declaration):
    key: list[KeyElement]
    actions: list[ActionReference]
    entries: list[Entry]
    entries_are_const: bool
    properties: dict[str, Property]


@dataclass(slots=True, eq=False)
class ValueSet(Declaration):
    type: TypeNode
    size: Expression


@dataclass(slots=True, eq=False)
class SelectCase(Node):
    keys: list[Expression]
    state: str


@dataclass(slots=True, eq=False)
class Select(Node):
    values: list[Expression]
    cases: list[SelectCase]


@dataclass(slots=True, eq=False)
class State(Declaration):
    """A state; `next` is the name of a state, a select, or None, which rejects."""

    statements: list[Statement]
    next: str | Select | None


@dataclass(slots=True, eq=False)
class Callable(Declaration):
    type_parameters: list[str]
    parameters: list[Parameter]
    constructor_parameters: list[Parameter]


@dataclass(slots=True, eq=False)
class Parser(Callable):
    """A parser, or with `is_type` the type of one."""

    locals: list[Declaration]
    states: list[State]
    is_type: bool = False


@dataclass(slots=True, eq=False)
class Control(Callable):
    """A control, or with `is_type` the type of one."""

    locals: list[Declaration]
    body: Block
    is_type: bool = False


@dataclass(slots=True, eq=False)
class Package(Declaration):
    type_parameters: list[str]
    parameters: list[Parameter]


Statement = (
    Assignment | CallStatement | Conditional | Block | Return | Exit | Empty | Break | Continue | Switch | For
    | ForIn | Declaration
)  # fmt: skip


@dataclass(slots=True, eq=False)
class Program:
    declarations: list[Declaration]
