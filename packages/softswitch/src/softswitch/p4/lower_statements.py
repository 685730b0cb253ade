"""Lowering of statements, except what calls do."""

from __future__ import annotations

from softswitch import ir
from softswitch.p4 import operands, tree
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.flow import EXIT, Leave
from softswitch.p4.frames import Frame
from softswitch.p4.lower_assignments import lower_assignment
from softswitch.p4.lower_branches import lower_conditional, lower_switch
from softswitch.p4.lower_expressions import lower
from softswitch.p4.lower_loops import lower_for, lower_for_in
from softswitch.p4.objects import Object
from softswitch.p4.operand_copies import assign, invalidate, saved
from softswitch.p4.operand_values import flattened


def lower_block(block: tree.Block, frame: Frame) -> None:
    for statement in block.statements:
        lower_statement(statement, frame)


def lower_statement(statement: tree.Statement, frame: Frame) -> None:
    match statement:
        case tree.Variable():
            lower_variable(statement, frame)
        case tree.Constant() | tree.Empty():
            pass
        case tree.Instance():
            made: Object = frame.state.elaborator.instance(
                statement, frame.owner.path, frame.owner.bindings, frame.substitution
            )
            frame.bindings[statement] = made
        case tree.Assignment():
            lower_assignment(statement, frame)
        case tree.CallStatement():
            _call_statement(statement, frame)
        case tree.Block():
            lower_block(statement, frame)
        case tree.Conditional():
            lower_conditional(statement, frame)
        case tree.Return(value=value):
            if value is not None and frame.result is not None:
                wanted = None if isinstance(frame.result, operands.Text) else frame.result.type
                lowered = lower(value, frame, wanted)
                assign(frame.result, lowered, frame, statement)
            frame.items.append(Leave(frame.return_label))
        case tree.Exit():
            for copy in reversed(frame.copies_out):
                copy(frame)
            frame.items.append(Leave(EXIT))
        case tree.Switch():
            lower_switch(statement, frame)
        case tree.For():
            lower_for(statement, frame)
        case tree.ForIn():
            lower_for_in(statement, frame)
        case tree.Break() | tree.Continue():
            if not frame.loops:
                raise SourceError(statement, "expected a loop around `break` and `continue`")
            frame.items.append(Leave(frame.loops[-1][isinstance(statement, tree.Continue)]))
        case _:
            raise SourceError(statement, "expected a statement that the switch can run")


def lower_locals(frame: Frame) -> None:
    """Lower the local variables of a control or a parser."""
    for local in frame.owner.declaration.locals:
        if isinstance(local, tree.Variable):
            lower_variable(local, frame)


def lower_variable(declaration: tree.Variable, frame: Frame) -> None:
    given = frame.declared(declaration)
    initial = None
    if declaration.initial is not None:
        initial = lower(declaration.initial, frame, given)
    storage = frame.storage.make(given, f"{frame.owner.path}.{declaration.name}", declaration)
    frame.bindings[declaration] = storage
    if initial is not None:
        assign(storage, initial, frame, declaration)
    else:
        invalidate(storage, frame, declaration)


def _call_statement(statement: tree.CallStatement, frame: Frame) -> None:
    result = frame.nested.call(statement.call, frame, None)
    if result is not None and frame.body == "parser":
        # A look beyond the end of the packet is an error, even if nobody needs what is there.
        for part in flattened(result, frame, statement):
            if not isinstance(part.expression, ir.FieldRef | ir.Constant):
                saved(part, frame, statement)
