"""Make a program smaller that does the same: by what is known, what is needed, and what does nothing."""

from __future__ import annotations

from collections.abc import Collection

from softswitch import ir
from softswitch.ir.names import SCALARS
from softswitch.p4.dead_code import Liveness
from softswitch.p4.idle_nodes import without_idle_nodes
from softswitch.p4.operands import Leaf
from softswitch.p4.propagation import Propagation, Variables
from softswitch.p4.storage_bits import StorageBits

_MAX_ROUNDS = 6


def simplified(program: ir.Program, arguments: Collection[Leaf]) -> ir.Program:
    """Return a program that does the same with fewer statements, tables and conditions.

    `arguments` are the headers, with field -1, and the fields of metadata that the blocks of the package
    share, which are needed after each control.
    """
    bits = StorageBits(program)
    pinned = _pinned(program, bits)
    variables = _variables(program, bits, frozenset(arguments), pinned)
    local = 0
    for ref in variables.fields:
        local |= bits.field(ref)
    for header in variables.headers:
        local |= bits.header(header)
    program = without_idle_nodes(program)
    for _ in range(_MAX_ROUNDS):
        size = _size(program)
        program = Propagation(program, bits, variables).run()
        program = without_idle_nodes(Liveness(program, bits, local, pinned).run())
        if _size(program) == size:
            break
    return program


def _size(program: ir.Program) -> int:
    nodes = len(program.ingress.nodes) + len(program.egress.nodes)
    return nodes + sum(len(each.body) for each in program.actions)


def _pinned(program: ir.Program, bits: StorageBits) -> int:
    """Return the storage of which no assignment is left out, as more than the controls' statements read it.

    The copy of a stack is a group of statements, of which none may go alone.
    """
    pinned = bits.mentioned(
        (program.calculations, program.field_lists, program.digests, program.verify, program.update,
         program.deparser_body)
    )  # fmt: skip
    for statement in program.statements:
        if isinstance(statement, ir.CopyCursor):
            pinned |= bits.stacks_of(statement.target) | bits.stacks_of(statement.source)
    return pinned


def _variables(program: ir.Program, bits: StorageBits, arguments: frozenset[Leaf], pinned: int) -> Variables:
    """Return the storage that only statements of controls use."""
    found: set[ir.FieldRef] = set()
    headers: set[int] = set()
    for index, header in enumerate(program.headers):
        if not header.metadata and (index, -1) not in arguments and not bits.header(index) & pinned:
            headers.add(index)
        elif header.name != SCALARS:
            continue
        found |= {
            ir.FieldRef(index, i)
            for i, each in enumerate(header.fields)
            if not each.varbit and (index, i) not in arguments
        }
    return Variables(frozenset(found), frozenset(headers))
