"""Input that is nested deeply is refused in one line, wherever it comes in; none is a RecursionError."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from finsy.proto import p4r

from softswitch.commands.names import ProgramNames
from softswitch.compiled import CompiledPipeline
from softswitch.conformance.client import read_p4info as read_p4info_of_program
from softswitch.errors import SwitchError
from softswitch.interpreter import InterpretedPipeline
from softswitch.load import load_program
from softswitch.p4runtime.loaded_config import read_p4info
from softswitch.testing import Switch
from switch_harness import PROGRAMS
from switch_harness.p4runtime import asynchronous, config, controlled_by, rig

DEPTHS = [100, 400, 3_000, 100_000]
FORMS = {"lists": ("[", "]"), "objects": ('{"a":', "}")}
TOO_DEEP = re.compile("it is nested too deeply|at most 1000 nested values")


def one_line(error: pytest.ExceptionInfo[SwitchError]) -> str:
    text = str(error.value)
    assert text and text.isprintable() and len(text) < 300
    return text


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("load", [load_program, ProgramNames])
def test_deeply_nested_json_is_refused_in_one_line(
    load: Callable[[str], object], depth: int, form: str
) -> None:
    begin, end = FORMS[form]
    for text in (begin * depth, begin * depth + "1" + end * depth):
        with pytest.raises(SwitchError) as error:
            load(text)
        if depth == max(DEPTHS):
            assert TOO_DEEP.search(one_line(error))


def nested_expression(depth: int) -> bytes:
    """A program whose action assigns ~~~...field; the same as JSON of this depth cannot be dumped."""
    program = json.loads((PROGRAMS / "l3.json").read_bytes())
    primitive = next(
        primitive
        for action in program["actions"]
        for primitive in action["primitives"]
        if primitive["op"] == "assign" and primitive["parameters"][1]["type"] == "expression"
    )
    primitive["parameters"][1]["value"] = "HOLE"
    leaf = '{"type": "hexstr", "value": "0x01"}'
    begin = '{"type": "expression", "value": {"op": "~", "left": null, "right": '
    return json.dumps(program).replace('"HOLE"', begin * depth + leaf + "}}" * depth).encode()


@pytest.mark.parametrize(
    ("make", "depth"),
    [(InterpretedPipeline, 5), *((m, d) for m in (InterpretedPipeline, CompiledPipeline) for d in DEPTHS)],
)
def test_deeply_nested_expressions_run_or_are_refused(make: Any, depth: int) -> None:
    request = config(program=PROGRAMS / "l3")
    request.p4_device_config = nested_expression(depth)
    if depth == 5:
        controlled_by(request, make)
        return
    try:
        controlled_by(request, make)
    except SwitchError as error:
        assert TOO_DEEP.search(str(error))
    else:
        assert depth < 1_000


def of_itself(request: p4r.ForwardingPipelineConfig) -> None:
    request.p4info.type_info.structs["a"].members.add(name="x").type_spec.struct.name = "a"
    request.p4info.registers[0].type_spec.struct.name = "a"


def of_itself_by_a_tuple(request: p4r.ForwardingPipelineConfig) -> None:
    request.p4info.type_info.structs["a"].members.add().type_spec.tuple.members.add().struct.name = "a"
    request.p4info.registers[0].type_spec.struct.name = "a"


def a_new_type_of_itself(request: p4r.ForwardingPipelineConfig) -> None:
    request.p4info.type_info.new_types["a"].original_type.new_type.name = "a"
    request.p4info.registers[0].type_spec.new_type.name = "a"


def a_long_chain(request: p4r.ForwardingPipelineConfig) -> None:
    for number in range(3_000):
        member = request.p4info.type_info.structs[f"s{number}"].members.add(name="x")
        member.type_spec.struct.name = f"s{number + 1}"
    request.p4info.registers[0].type_spec.struct.name = "s0"


TYPES = [of_itself, of_itself_by_a_tuple, a_new_type_of_itself, a_long_chain]


@pytest.mark.parametrize("spoil", TYPES)
def test_deeply_nested_types_of_p4info_are_refused_in_one_line(
    spoil: Callable[[p4r.ForwardingPipelineConfig], None],
) -> None:
    request = config()
    spoil(request)
    with pytest.raises(SwitchError) as error:
        controlled_by(request)
    assert TOO_DEEP.search(one_line(error))


@pytest.mark.parametrize("depth", DEPTHS)
def test_deeply_nested_p4info_and_requests_in_text_are_refused_in_one_line(
    depth: int, tmp_path: Path
) -> None:
    p4info = "registers { type_spec { " + "tuple { members { " * depth + "} } " * depth + "} }"
    write = (
        "updates { entity { register_entry { data { "
        + "struct { members { " * depth
        + "} } " * depth
        + "} } } }"
    )
    file = tmp_path / "a.p4info.txtpb"
    file.write_text(p4info)
    with Switch(PROGRAMS / "control.json", PROGRAMS / "control.p4info.txtpb") as switch:
        parsers: list[Callable[[], object]] = [
            lambda: read_p4info(file),
            lambda: read_p4info_of_program(tmp_path / "a.json"),
            lambda: switch.write(write),
        ]
        for parse in parsers:
            if depth < 1_000:
                # protobuf's own limit is below Python's in some versions
                try:
                    parse()
                except SwitchError as error:
                    assert str(error).isprintable()
            else:
                with pytest.raises(SwitchError) as refused:
                    parse()
                assert TOO_DEEP.search(one_line(refused))


@asynchronous
async def test_deeply_nested_configs_and_messages_over_grpc_are_refused() -> None:
    """Configs and messages in binary; protobuf itself limits the depth of the latter."""
    async with rig() as switch:
        controller = await switch.primary()
        for spoil in TYPES:
            request = config()
            spoil(request)
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await controller.set_config("VERIFY", request)
            assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert TOO_DEEP.search(error.value.details() or "")
        change = p4r.Update(type=p4r.Update.MODIFY)
        data = change.entity.register_entry.data
        for _ in range(40):
            data = data.struct.members.add()
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await controller.write(change)
        assert error.value.code() == grpc.StatusCode.UNKNOWN  # one error for each update
