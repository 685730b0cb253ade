"""Arguments of calls whose bodies take the place of the call."""

from __future__ import annotations

from collections.abc import Callable

from softswitch.p4 import operands, tree, types
from softswitch.p4.effects import assigned_declarations, has_effects, has_index, mentioned_declarations
from softswitch.p4.frames import Frame
from softswitch.p4.lower_assignments import assign_to, pinned
from softswitch.p4.lower_expressions import lower
from softswitch.p4.objects import CallableObject, ExternObject
from softswitch.p4.operand_copies import assign, invalidate, stable_copy
from softswitch.p4.operand_values import leaves_of
from softswitch.p4.operands import Operand, Scalar
from softswitch.p4.scopes import CallTarget


def bind_arguments(
    target: CallTarget, substitution: types.Substitution, caller: Frame, callee: Frame,
    action: tree.Action | None, node: tree.Node,
) -> list[Callable[[Frame], None]]:  # fmt: skip
    """Bind the parameters of a body, and return what copies results out after it.

    A parameter is bound to the variable that is its argument where nothing else in the body can be that
    variable; otherwise a copy is made before, and copied back after (specification, §6.8).
    """
    copies: list[Callable[[Frame], None]] = []
    lowered, copied, arguments = _evaluated(target, substitution, caller, callee, node)
    outputs = [
        set()
        if operand is None or parameter.direction not in ("out", "inout")
        else leaves_of(operand, caller)
        for parameter, operand in zip(target.parameters, lowered, strict=True)
    ]
    # An action also sees the variables of the control around it.
    written = _captured(assigned_declarations(action.body, caller) if action else set(), callee)
    seen = _captured(mentioned_declarations(action.body, caller) if action else set(), callee)
    for i, (parameter, argument, operand) in enumerate(
        zip(target.parameters, arguments, lowered, strict=True)
    ):
        if parameter in callee.bindings.maps[0]:
            continue
        wanted = types.substitute(caller.facts.declared[parameter], substitution)
        expression = argument.value if argument is not None else None
        others = set().union(written, *(each for j, each in enumerate(outputs) if j != i))
        is_output = parameter.direction in ("out", "inout")
        if is_output and operand is not None:
            is_aliased = leaves_of(operand, caller) & (others | seen) or any(
                leaves_of(operand, caller) & leaves_of(each, caller)
                for j, each in enumerate(lowered)
                if j != i and each is not None
            )
            if i not in copied and operands.is_variable(operand) and not is_aliased:
                callee.bindings[parameter] = operand
                if parameter.direction == "out":
                    invalidate(operand, caller, node)
                continue
        elif operand is not None and _is_stable(operand, caller, others):
            callee.bindings[parameter] = operand
            continue
        storage = caller.storage.make(wanted, parameter.name, parameter)
        callee.bindings[parameter] = storage
        if parameter.direction == "out":
            invalidate(storage, caller, node)
        elif operand is not None:
            assign(storage, copied.get(i, operand), caller, node)
        elif expression is not None:
            assign(storage, lower(expression, caller, wanted), caller, node)
        if is_output and expression is not None:
            copies.append(_copy_out(expression, storage, caller))
    if copies:
        callee.copies_out.append(lambda frame: _run_all(copies, frame))
    return copies


def _captured(declarations: set[tree.Declaration], callee: Frame) -> set[operands.Leaf]:
    bound = [callee.bindings.get(each) for each in declarations]
    return set().union(*(leaves_of(each, callee) for each in bound if isinstance(each, Operand)))


def _evaluated(
    target: CallTarget, substitution: types.Substitution, caller: Frame, callee: Frame, node: tree.Node
) -> tuple[list[Operand | None], dict[int, Operand], list[tree.Argument | None]]:
    """Evaluate arguments in the order in which they are written (specification, §6.8).

    Returned are operands, copies of those of `inout` that calls after them could change, by positions,
    and arguments with the indices that they have now.
    """
    arguments = list(target.arguments)
    lowered: list[Operand | None] = [None] * len(arguments)
    copied: dict[int, Operand] = {}
    given = node.arguments if isinstance(node, tree.Call) else []
    order = {id(each): i for i, each in enumerate(given)}
    written = sorted(range(len(arguments)), key=lambda i: order.get(id(arguments[i]), len(given)))
    for n, i in enumerate(written):
        parameter, argument = target.parameters[i], arguments[i]
        if (
            argument is not None and argument.value is not None and parameter.direction in ("out", "inout")
        ) and has_index(argument.value):
            fixed = pinned(argument.value, caller)
            arguments[i] = argument = tree.Argument(argument.position, argument.name, fixed)
        lowered[i] = operand = _lower_argument(parameter, argument, substitution, caller, callee)
        later = [
            each.value
            for j in written[n + 1 :]
            if (each := arguments[j]) is not None and each.value is not None
        ]
        if (
            operand is not None
            and parameter.direction != "out"
            and any(has_effects(e, caller) for e in later)
        ):
            if parameter.direction == "inout":
                copied[i] = stable_copy(operand, caller, parameter)
            else:
                lowered[i] = stable_copy(operand, caller, parameter)
    return lowered, copied, arguments


def _lower_argument(
    parameter: tree.Parameter, argument: tree.Argument | None, substitution: types.Substitution,
    caller: Frame, callee: Frame,
) -> Operand | None:  # fmt: skip
    """Return the operand of an argument, or None if a copy is needed; an object is bound at once."""
    wanted = types.substitute(caller.facts.declared[parameter], substitution)
    expression = argument.value if argument is not None else None
    if isinstance(wanted, types.Object):
        found = object_of(expression, caller) if expression is not None else None
        callee.bindings[parameter] = found
        return None
    if argument is None:
        if parameter.default is None:
            return None
        return lower(parameter.default, callee, wanted)
    if expression is None:
        return None
    if parameter.direction == "out" and isinstance(expression, tree.Slice):
        return None
    return lower(expression, caller, wanted)


def _copy_out(expression: tree.Expression, storage: Operand, caller: Frame) -> Callable[[Frame], None]:
    """Return what copies a result out, where a body ends, to what an argument means to the caller."""
    return lambda frame: assign_to(expression, storage, caller.within(frame.items))


def _run_all(copies: list[Callable[[Frame], None]], frame: Frame) -> None:
    for copy in copies:
        copy(frame)


def _is_stable(operand: Operand, frame: Frame, written: set[operands.Leaf]) -> bool:
    """Return whether a value of an `in` parameter stays what it is while the body runs."""
    if isinstance(operand, Scalar) and operand.is_constant:
        return True
    if isinstance(operand, operands.Struct):
        return all(_is_stable(each, frame, written) for each in operand.fields.values())
    return operands.is_variable(operand) and not leaves_of(operand, frame) & written


def object_of(expression: tree.Expression, frame: Frame) -> CallableObject | ExternObject | None:
    """Return the instance that an expression names, or None for the packet of a parser or deparser."""
    if isinstance(expression, tree.Name):
        declaration = frame.facts.references.get(expression)
        found = frame.bindings.get(declaration) if declaration is not None else None
        if isinstance(found, CallableObject | ExternObject):
            return found
        return None
    if isinstance(expression, tree.Call):
        key = (expression, frame.owner)
        if key not in frame.state.anonymous:
            made = frame.state.elaborator.construct_expression(
                expression, f"{frame.owner.path}.{expression.position.line}", frame.owner
            )
            assert isinstance(made, CallableObject | ExternObject)
            frame.state.anonymous[key] = made
        return frame.state.anonymous[key]
    return None
