"""Names of actions and tables to the control plane, which have to differ (specification, §18.3.3)."""

from __future__ import annotations

from collections.abc import Iterator

from softswitch.p4 import tree
from softswitch.p4.diagnostics import SourceFiles


def check_control_plane_names(program: tree.Program, sources: SourceFiles) -> None:
    """Report tables or actions of one name; those of two instances of a control have different paths."""
    seen: dict[tuple[type[tree.Declaration], str], tree.Declaration] = {}
    for declaration, path in _named(program):
        annotation = declaration.annotation("name")
        name = annotation.text if annotation is not None else declaration.name
        full = name[1:] if name.startswith(".") else f"{path}{name}"
        other = seen.setdefault((type(declaration), full), declaration)
        if full != "NoAction" and other is not declaration and other.position != declaration.position:
            kind = "action" if isinstance(declaration, tree.Action) else "table"
            text = (
                f"expected one {kind} with the name `{full}` to the control plane, another is at "
                f"{other.position}"
            )
            sources.error(declaration.position, text)


def _named(program: tree.Program) -> Iterator[tuple[tree.Declaration, str]]:
    for declaration in program.declarations:
        if isinstance(declaration, tree.Action):
            yield declaration, ""
        elif isinstance(declaration, tree.Control):
            for local in declaration.locals:
                if isinstance(local, tree.Action | tree.Table):
                    yield local, f"{declaration.name}."
