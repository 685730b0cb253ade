"""Types that nodes of the tree denote."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from itertools import islice

from softswitch.limits import MAX_VALUE_BITS
from softswitch.p4 import compile_time, tree, types
from softswitch.p4.constants import Evaluator
from softswitch.p4.declaration_rules import check_field_count, check_type_arguments
from softswitch.p4.diagnostics import MAX_SHOWN_ERRORS, SourceError, SourceFiles
from softswitch.p4.scopes import Entity, Facts, NameScope

_SIMPLE = {each.name: each for each in (
    types.INT, types.BOOL, types.ERROR, types.STRING, types.VOID, types.MATCH_KIND, types.UNKNOWN,
)}  # fmt: skip
MAX_STACK_SIZE = 1 << 12
MAX_TYPE_PARTS = 1000
"""Types in a type such as `tuple<tuple<bit<8>>, bool>`."""
_MAX_LENGTH_DIFFERENCE = 2
_MAX_CANDIDATES = 1000
_MAX_COMPARED = 64


class TypeResolver:
    """Finds what names and types mean. Widths and sizes in types are expressions, which a function checks."""

    def __init__(
        self,
        facts: Facts,
        sources: SourceFiles,
        check_expression: Callable[[tree.Expression, NameScope], types.Type],
    ) -> None:
        self.facts, self.sources, self._check_expression = facts, sources, check_expression
        self.evaluator = Evaluator(facts)

    def check_compile_time(self, expression: tree.Expression) -> None:
        compile_time.check_compile_time(expression, self.facts, self.evaluator)

    # -- names

    def declare(self, scope: NameScope, declaration: tree.Declaration) -> None:
        """Add a declaration to a scope; only functions and the like may share a name."""
        others = scope.names.setdefault(declaration.name, [])
        same = [other for other in others if not _may_share(declaration, other)]
        if same:
            place = same[0].position if isinstance(same[0], tree.Declaration) else ""
            self.sources.error(
                declaration.position,
                f"expected one declaration of `{declaration.name}` here, another is at {place}",
            )
            return
        others.append(declaration)

    def find(self, name: str, scope: NameScope, node: tree.Node, is_global: bool = False) -> list[Entity]:
        """Return what a name means; raise `SourceError` if nothing has it."""
        if found := scope.find(name, is_global):
            return found
        hint = f"; is `{similar}` meant?" if (similar := self._similar(name, scope)) else ""
        raise SourceError(node, f"expected a declared name, got `{name}`{hint}")

    def _similar(self, name: str, scope: NameScope) -> str:
        """Return a name that may have been meant; only errors that are shown have one."""
        if self.sources.error_count >= MAX_SHOWN_ERRORS:
            return ""
        lengths = range(len(name) - _MAX_LENGTH_DIFFERENCE, len(name) + _MAX_LENGTH_DIFFERENCE + 1)
        candidates = (each for each in scope.all_names() if each != name and len(each) in lengths)
        similar = difflib.get_close_matches(name[:_MAX_COMPARED], set(islice(candidates, _MAX_CANDIDATES)), 1)
        return similar[0] if similar else ""

    # -- types

    def resolve(self, node: tree.TypeNode, scope: NameScope) -> types.Type:
        match node:
            case tree.BaseType(name=name):
                if name == "error" and not self.facts.errors and not self.facts.globals.find("error"):
                    raise SourceError(node, "expected a declaration of `error`; is core.p4 included?")
                return _SIMPLE[name]
            case tree.SizedType(name=name, width=width):
                bits = self._width(width, scope, 1 if name == "int" else 0)
                return types.Varbit(bits) if name == "varbit" else types.Bits(bits, name == "int")
            case tree.NamedType():
                return self._named(node, scope, ())
            case tree.SpecializedType(base=base, arguments=arguments):
                resolved = tuple(self.resolve(each, scope) for each in arguments)
                if base.name == "tuple" and not base.is_global:
                    check_type_arguments(types.Tuple(resolved), node, self.facts)
                    return self._limited(types.Tuple(resolved), node)
                if base.name == "list" and not base.is_global:
                    if len(resolved) != 1:
                        raise SourceError(node, f"expected one type argument of list, got {len(resolved)}")
                    return self._limited(types.List(resolved[0]), node)
                return self._limited(self._named(base, scope, resolved), node)
            case tree.StackType(element=element, size=size):
                element_type = self.resolve(element, scope)
                if isinstance(element_type, types.Object) or element_type in (types.VOID, types.STRING):
                    raise SourceError(element, f"expected headers in a stack, got {element_type}")
                self._check_expression(size, scope)
                count = self.evaluator.integer(size)
                if not 0 <= count <= MAX_STACK_SIZE:
                    raise SourceError(
                        size, f"expected a size from 0 to {MAX_STACK_SIZE} of the stack, got {count}"
                    )
                return self._limited(types.Stack(element_type, count), node)

    def _limited(self, given: types.Type, node: tree.TypeNode) -> types.Type:
        """Return a type; raise `SourceError` if it has too many parts, or its values too many fields."""
        if (parts := types.count_parts(given)) > MAX_TYPE_PARTS:
            raise SourceError(node, f"expected a type of at most {MAX_TYPE_PARTS} parts, got {parts}")
        check_field_count(given, node, self.facts)
        return given

    def _width(self, expression: tree.Expression, scope: NameScope, min_width: int) -> int:
        self._check_expression(expression, scope)
        width = self.evaluator.integer(expression)
        if not min_width <= width <= MAX_VALUE_BITS:
            raise SourceError(
                expression, f"expected a width from {min_width} to {MAX_VALUE_BITS} bits, got {width}"
            )
        return width

    def _named(self, node: tree.NamedType, scope: NameScope, arguments: tuple[types.Type, ...]) -> types.Type:
        found = self.find(node.name, scope, node, node.is_global)[0]
        if isinstance(found, types.Variable):
            return found
        self.facts.references[node] = found
        resolved = self._type_of_declaration(found, node, arguments)
        if resolved is None:
            raise SourceError(node, f"expected a type, got `{node.name}`")
        return resolved

    def _type_of_declaration(
        self, found: tree.Declaration, node: tree.NamedType, arguments: tuple[types.Type, ...]
    ) -> types.Type | None:
        match found:
            case tree.Struct() | tree.Extern() | tree.Control() | tree.Parser() | tree.Package():
                expected = len(found.type_parameters)
                if not arguments and expected:
                    arguments = (types.UNKNOWN,) * expected if not isinstance(found, tree.Struct) else ()
                if len(arguments) != expected:
                    text = f"expected {expected} type arguments of `{found.name}`, got {len(arguments)}"
                    raise SourceError(node, text)
                made: types.Struct | types.Object
                if isinstance(found, tree.Struct):
                    made = types.Struct(found, arguments)
                else:
                    made = types.Object(found, arguments)
                check_type_arguments(made, node, self.facts)
                return made
        if arguments:
            raise SourceError(node, f"expected a generic type, got `{found.name}`")
        match found:
            case tree.Enum(underlying=underlying):
                bits = self.resolve(underlying, self.facts.globals) if underlying else None
                return types.Enum(found, bits if isinstance(bits, types.Bits) else None)
            case tree.Typedef(is_new=is_new):
                base = self.facts.declared[found]
                return types.New(found, base) if is_new else base
        return None


def _may_share(declaration: tree.Declaration, other: Entity) -> bool:
    """Return whether two declarations may have one name: functions with different parameters."""
    kinds = (tree.Function, tree.Action)
    if not isinstance(declaration, kinds) or not isinstance(other, kinds):
        return False
    names = [parameter.name for parameter in declaration.parameters]
    return isinstance(other, tree.Function) and [p.name for p in other.parameters] != names
