"""The numbers of a design's arms as P4 constants: `NAME_arms.p4`, which is written from its Python.

A program NAME.p4 that includes this file gets it beside itself, before each compilation. So a number stands
in Python only, and the program cannot have another one.
"""

from __future__ import annotations

from foundation.designs.interface import Design
from foundation.designs.programs import P4Error, includes
from foundation.designs.sources import source_of
from nativekit.files import replace_file


def constant_of(arm: str) -> str:
    """Return the P4 constant with the number of an arm."""
    return f"ARM_{arm.upper().replace('-', '_')}"


def write_arm_numbers(design: Design) -> None:
    """Write the file that the program of a design includes, if it does; raises `P4Error`."""
    source = source_of(design.program)
    file = source and source.with_name(f"{source.stem}_arms.p4")
    if source is None or file is None or file.name not in includes(source):
        return
    constants = (f"const bit<16> {constant_of(arm.name)} = {arm.job};\n" for arm in design.arms)
    head = f"// Written from the arms of `DESIGN` in {design.module} before the program is compiled.\n"
    text = head + "".join(constants)
    try:
        if not file.is_file() or file.read_text() != text:
            replace_file(file, text.encode())
    except OSError as error:
        raise P4Error(f"{file}: cannot be written: {error.strerror}") from error
