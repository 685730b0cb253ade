"""Numbers of a BMv2 JSON that would make a small program slow to compile, or too large to run."""

from __future__ import annotations

import dataclasses
import json
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from softswitch.compiled import CompiledPipeline
from softswitch.errors import ProgramError
from softswitch.limits import MAX_HEADER_BYTES, MAX_VALUE_BITS
from softswitch.load import load_program
from switch_harness import PROGRAMS
from switch_harness.wording import mentions

HUGE = (1 << 24) + 5  # occurs in no program
WIDE = hex((1 << 2 * MAX_VALUE_BITS) - 1)
Keys = tuple[str, ...]  # the keys that lead to a number, without positions in lists of objects
# Sizes of state, which is allocated and not compiled, and a distance in the frame, which is one constant.
MAY_BE_HUGE = {
    *(f"{kind}.size" for kind in ("ActionProfile", "Counter", "Meter", "Register", "Table", "ValueSet")),
    "Lookahead.offset",
}
OneEdit = Callable[[Any, int], None]


def set_field_width(document: Any, bits: int) -> None:
    document["header_types"][0]["fields"][0][1] = bits


def set_parameter_width(document: Any, bits: int) -> None:
    next(action for action in document["actions"] if action["runtime_data"])["runtime_data"][0][
        "bitwidth"
    ] = bits


def set_register_width(document: Any, bits: int) -> None:
    document["register_arrays"][0]["bitwidth"] = bits


def numbers(value: Any, path: Keys = ()) -> Iterator[tuple[Keys, Any, Any]]:
    """Yield each number with its path, the object or list that has it, and its key there."""
    keys = value if isinstance(value, dict) else range(len(value))
    for key in keys:
        element, steps = value[key], path if isinstance(value, list) else (*path, str(key))
        if isinstance(element, dict | list):
            # The positions in a header's field and in a pair are names of what is there.
            is_record = isinstance(value, list) and isinstance(element, list)
            yield from numbers(element, (*steps, "record") if is_record else steps)
        elif isinstance(element, int) and not isinstance(element, bool):
            yield (*steps, str(key)), value, key
        elif isinstance(element, str) and element.startswith("0x"):
            yield (*steps, "hex"), value, key


def attributes(value: Any) -> Iterator[tuple[str, int]]:
    """Yield the numbers of a loaded program with the names of their class and attribute."""
    if dataclasses.is_dataclass(value):
        named = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        named = value._asdict()
    else:
        items = (
            value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else ()
        )
        named = dict.fromkeys(())
        for item in items:
            yield from attributes(item)
    for name, element in named.items():
        elements = element if isinstance(element, tuple) and not hasattr(element, "_asdict") else (element,)
        for each in elements:
            if isinstance(each, int):
                yield f"{type(value).__name__}.{name}", each
            else:
                yield from attributes(each)


def test_each_number_of_a_program_is_bounded_or_may_be_huge() -> None:
    seen: set[Keys] = set()
    unbounded: dict[str, Keys] = {}
    for file in sorted(PROGRAMS.glob("*.json")):
        document = json.loads(file.read_text())
        for path, inside, key in numbers(document):
            if path in seen:
                continue
            seen.add(path)
            before, huge = inside[key], WIDE if path[-1] == "hex" else HUGE
            inside[key] = huge
            data = json.dumps(document).encode()
            inside[key] = before
            try:
                program = load_program(data)
            except ProgramError:
                continue
            unbounded |= {name: path for name, number in attributes(program) if number == int(str(huge), 0)}
    assert len(seen) > 60
    assert not unbounded.keys() - MAY_BE_HUGE, unbounded


@pytest.mark.parametrize("edit", [set_field_width, set_parameter_width, set_register_width])
def test_widths_above_the_limit_are_refused_with_the_limit_and_the_place(edit: OneEdit) -> None:
    document = json.loads((PROGRAMS / "control.json").read_text())
    edit(document, MAX_VALUE_BITS)
    load_program(json.dumps(document).encode())
    for bits in (MAX_VALUE_BITS + 1, HUGE):
        edit(document, bits)
        with pytest.raises(ProgramError, match=mentions("[0]", MAX_VALUE_BITS, bits)):
            load_program(json.dumps(document).encode())


def test_a_header_of_variable_length_has_a_limit() -> None:
    document = json.loads((PROGRAMS / "varbit.json").read_text())
    header_type = next(item for item in document["header_types"] if item.get("max_length"))
    header_type["max_length"] = MAX_HEADER_BYTES + 1
    with pytest.raises(ProgramError, match=mentions("max_length", MAX_HEADER_BYTES, MAX_HEADER_BYTES + 1)):
        load_program(json.dumps(document).encode())


def test_state_that_does_not_fit_into_memory_is_refused_with_its_size() -> None:
    document = json.loads((PROGRAMS / "control.json").read_text())
    next(item for item in document["counter_arrays"] if not item["is_direct"])["size"] = (1 << 31) - 1
    program = load_program(json.dumps(document).encode())
    before = resource.getrlimit(resource.RLIMIT_AS)
    # LLVM ends the process if it gets no memory itself, so that there is some for all but the counters.
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 33), before[1]))
    try:
        with pytest.raises(ProgramError, match=mentions("memory", "bytes")):
            CompiledPipeline(program)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
