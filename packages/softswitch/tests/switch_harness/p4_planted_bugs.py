"""Bugs that are planted into the compiler of P4, to see whether comparisons with syntax trees notice them.

python -m switch_harness.p4_planted_bugs        # each, with what noticed it
python -m switch_harness.p4_planted_bugs 3 7    # some of them, by their numbers
"""

from __future__ import annotations

import importlib.util
import io
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

PROGRAMS = 240
"""Drawn programs that are tried, before the unit tests are."""
SIZE = 30
_UNIT = Path(__file__).parents[1] / "unit" / "p4"
UNIT_TESTS = _UNIT / "test_semantics.py", _UNIT / "test_simplified.py"
_RECURSION_LIMIT = 20_000


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """A text of a module of `softswitch.p4` that occurs once, and what stands there instead."""

    module: str
    original: str
    mutated: str


BUGS = (
    # Lexer and preprocessor.
    PlantedBug(
        "lexer", '_BASES = {"x": 16, "b": 2, "o": 8, "d": 10}', '_BASES = {"x": 16, "b": 2, "o": 10, "d": 10}'
    ),
    PlantedBug("lexer", 'match["sign"] == "s"\n', 'match["sign"] == "w"\n'),
    PlantedBug(
        "preprocessor",
        'if token.text == "," and nesting == 0 and not is_rest',
        'if token.text == "," and not is_rest',
    ),
    PlantedBug(
        "preprocessor",
        'branch.is_active = directive == "else" or',
        'branch.is_active = directive != "else" and',
    ),
    PlantedBug("conditions", '"*": (10, lambda', '"*": (8, lambda'),
    # Parser.
    PlantedBug("expression_parser", '"|": 5, "^": 6', '"|": 6, "^": 5'),
    PlantedBug("expression_parser", "left, self._binary(found + 1))", "left, self._binary(found))"),
    PlantedBug("expression_parser", '"<<": 8,\n    ">>": 8,', '"<<": 9,\n    ">>": 9,'),
    PlantedBug(
        "statement_parser",
        'body = self.block() if self.at("{", "@") else None',
        'body = self.block() if self.at("{", "@") else tree.Block(label_position, [])',
    ),
    # Checker, constants and types.
    PlantedBug(
        "check_operators",
        "return types.Bits(left_type.width + right_type.width, left_type.signed)",
        "return types.Bits(left_type.width + right_type.width, right_type.signed)",
    ),
    PlantedBug(
        "check_operators",
        "if left_type == types.INT != right_type:",
        "if False:",
    ),
    PlantedBug(
        "constants",
        "value -= 1 << given.width\n    return value",
        "value -= 1 << given.width - 1\n    return value",
    ),
    PlantedBug(
        "constants",
        "return (base >> low) & ((1 << found.width) - 1)",
        "return (base >> low) & ((2 << found.width) - 1)",
    ),
    PlantedBug(
        "constants",
        "low = -(1 << (given.width - 1)) if given.signed else 0",
        "low = -(1 << given.width) if given.signed else 0",
    ),
    PlantedBug(
        "unify",
        "case types.Bits(), types.Enum(underlying=underlying):\n            return underlying == wanted",
        "case types.Bits(), types.Enum():\n            return False",
    ),
    PlantedBug(
        "unify",
        "return _unify_all(tuple(fields_of(wanted, facts).values()), rights, known, facts)",
        "return False",
    ),
    # Lowering of expressions and statements.
    PlantedBug(
        "lower_expressions",
        "if not has_effects(expression.right, frame):\n        return arithmetic.logical",
        "if True:\n        return arithmetic.logical",
    ),
    PlantedBug(
        "lower_expressions",
        "inner = frame.within(branch.then if is_and else branch.otherwise)",
        "inner = frame.within(branch.otherwise if is_and else branch.then)",
    ),
    PlantedBug(
        "lower_expressions",
        "return stable_copy(operand, frame, expression) if has_effects(following, frame) else operand",
        "return operand",
    ),
    PlantedBug("operand_values", 'return arithmetic.logical("||", both_invalid, same)', "return same"),
    PlantedBug(
        "operand_copies",
        "stable_copy(each, frame, node) if written & leaves_of(each, frame) else each for each in values",
        "each for each in values",
    ),
    PlantedBug(
        "lower_branches",
        "items = branch.otherwise\n    _into(default, frame, items)",
        "items = branch.otherwise\n    _into(default, frame, frame.items)",
    ),
    PlantedBug(
        "lower_statements",
        "for copy in reversed(frame.copies_out):",
        "for copy in reversed(frame.copies_out[1:]):",
    ),
    PlantedBug(
        "lower_statements",
        "Leave(frame.loops[-1][isinstance(statement, tree.Continue)])",
        "Leave(frame.loops[-1][isinstance(statement, tree.Break)])",
    ),
    PlantedBug("operand_copies", "frame.emit(ir.SetValid(header.reference), node.position)\n", "pass\n"),
    # Calls, tables, parsers and externs.
    PlantedBug(
        "call_arguments",
        "return operands.is_variable(operand) and not leaves_of(operand, frame) & written",
        "return operands.is_variable(operand)",
    ),
    PlantedBug(
        "call_arguments",
        "if i not in copied and operands.is_variable(operand) and not is_aliased:",
        "if i not in copied and operands.is_variable(operand):",
    ),
    PlantedBug("call_arguments", "assign_to(expression, storage, caller.within(frame.items))", "None"),
    PlantedBug("call_arguments", "invalidate(operand, caller, node)", "pass"),
    PlantedBug("lower_tables", "wanted.width != width", "False"),
    PlantedBug(
        "lower_table_actions",
        "_bind_data(parameter, len(widths), inner)",
        "_bind_data(parameter, 0, inner)",
    ),
    PlantedBug("lower_transitions", "del cases[always + 1 :]", "del cases[1:]"),
    PlantedBug("lower_parser", "operations.insert(0, item.statement)", "operations.append(item.statement)"),
    PlantedBug("lower_transitions", "return [(value & mask, mask)]", "return [(value & mask, full)]"),
    PlantedBug(
        "arithmetic",
        "is_wider = target.width > source.width or",
        "is_wider = target.width >= source.width or",
    ),
    PlantedBug("arithmetic", "ir.Op.LT: ir.Op.GE", "ir.Op.LT: ir.Op.GT"),
    PlantedBug(
        "arithmetic",
        "fit = ir.Fit.SATURATE_SIGNED if given.signed else ir.Fit.SATURATE",
        "fit = ir.Fit.SATURATE",
    ),
    PlantedBug("arithmetic", '_STAY_IN_RANGE = ("&", "|", "^",', '_STAY_IN_RANGE = ("+", "&", "|", "^",'),
    PlantedBug(
        "arithmetic",
        "hole = mask_of(width) & ~(mask_of(high - low + 1) << low)",
        "hole = mask_of(width) & ~(mask_of(high - low) << low)",
    ),
    # Graphs of controls, and bodies of actions.
    PlantedBug("linear", "if label is EXIT:  # which", "if False:  # which"),
    PlantedBug(
        "linear",
        "(item.then, item.otherwise, negation(item.condition), negated_text),",
        "(item.then, item.otherwise, item.condition, negated_text),",
    ),
    PlantedBug("linear", "if is_last and not self._is_target(here):", "if is_last:"),
    PlantedBug("graph", "self._labels[EXIT] = end", "self._labels[EXIT] = None"),
    PlantedBug("graph", "key = (body, locations, following)", "key = (body, locations)"),
    PlantedBug(
        "graph", "then = self._sequence(item.then, following)\n", "then = self._sequence(item.then, None)\n"
    ),
    PlantedBug(
        "graph",
        "built[id(items)] = self._sequence(items, following)",
        "built[id(items)] = self._sequence(items, other)",
    ),
    PlantedBug(
        "storage",
        "return operands.Scalar(ir.FieldRef(index, position), given)",
        "return operands.Scalar(ir.FieldRef(index, 0), given)",
    ),
    # Simplification.
    PlantedBug("storage_bits", "((2 << len(", "((1 << len("),
    PlantedBug("storage_bits", "self._program.siblings.get(header, ())", "()"),
    PlantedBug("storage_bits", "index | self._union(self._reference(source))", "index"),
    PlantedBug("dead_code", "after & ~effects.replaced", "after & ~effects.written"),
    PlantedBug("dead_code", "(at_end if has_exit else 0)", "0"),
    PlantedBug("dead_code", "self._after_actions.get(index, 0) | after_action", "after_action"),
    PlantedBug("dead_code", "needed = 0 if is_hidden(table) else after", "needed = 0"),
    PlantedBug("propagation", "_common(at[i], values) if is_reached else at[i]", "values"),
    PlantedBug("propagation", "if i in starts:", "if False:"),
    PlantedBug(
        "propagation",
        "value = self._wrapped(values[key].value, key)\n",
        "value = values[key].value\n",
    ),
    PlantedBug("propagation", "_without(values, self._bits.effects(made).written)", "dict(values)"),
    PlantedBug("propagation", "_without(values, self._written_by(node))", "dict(values)"),
    PlantedBug(
        "propagation", "if fits(value, found.width, self._program):\n            return value", "return value"
    ),
    PlantedBug("folding", "return left if condition else right", "return right if condition else left"),
    PlantedBug("action_bodies", "offset = len(one.body)", "offset = len(one.body) + 1"),
    PlantedBug(
        "action_bodies", "count += i < len(action.body) and i not in dropped", "count += i < len(action.body)"
    ),
    PlantedBug("idle_nodes", "or len(before) != 1:", "or not before:"),
    PlantedBug("dead_code", "effects.written & (after | self._pinned)", "effects.written & after"),
    PlantedBug("direct_meters", "sum(bool(each & bits.field(colour)) for each in mentioned) == 1", "True"),
)


class _Loader(SourceFileLoader):
    bug: PlantedBug

    def get_data(self, path: str) -> bytes:
        if path != self.path:
            raise OSError(path)  # compiled code, which has no bug
        text = Path(path).read_text()
        if (count := text.count(self.bug.original)) != 1:
            raise ValueError(f"expected one place with {self.bug.original!r} in {path}, got {count}")
        return text.replace(self.bug.original, self.bug.mutated).encode()


class _Finder(MetaPathFinder):
    """Finds the one module with a planted bug."""

    def __init__(self, bug: PlantedBug) -> None:
        self._bug = bug

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != f"softswitch.p4.{self._bug.module}":
            return None
        found = PathFinder.find_spec(fullname, path, target)
        assert found is not None
        assert found.origin is not None
        loader = _Loader(fullname, found.origin)
        loader.bug = self._bug
        return importlib.util.spec_from_file_location(fullname, found.origin, loader=loader)


def noticed_by(number: int) -> str:
    """Return what notices a bug, in a process of its own; empty if nothing does."""
    command = [sys.executable, "-m", "switch_harness.p4_planted_bugs", "--plant", str(number)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        raise RuntimeError(f"expected to try the bug {number}: {found.stderr}")
    return found.stdout.strip()


def _notice(bug: PlantedBug) -> str:
    sys.meta_path.insert(0, _Finder(bug))
    sys.dont_write_bytecode = True
    sys.setrecursionlimit(_RECURSION_LIMIT)
    from switch_harness.p4_comparison import Counts, compare  # imported late, with the bug
    from switch_harness.p4_programs import program_of_seed

    for seed in range(PROGRAMS):
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = compare(program_of_seed(seed, SIZE), Path(folder), Counts())
            except Exception as error:  # each is noticed
                return f"program {seed}: {type(error).__name__}: {str(error).partition(chr(10))[0][-150:]}"
        if found is not None:
            return f"program {seed}: {found[:150]}"
    with redirect_stdout(io.StringIO()):
        failed = pytest.main(
            ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "-W", "ignore", *map(str, UNIT_TESTS)]
        )
    return "a unit test" if failed else ""


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--plant"]:
        print(_notice(BUGS[int(arguments[1])]))
        return
    for number in map(int, arguments or range(len(BUGS))):
        bug = BUGS[number]
        print(
            f"{number} {bug.module}: {bug.original[:50]!r}: {noticed_by(number) or 'NOT NOTICED'}", flush=True
        )


if __name__ == "__main__":
    main(sys.argv[1:])
