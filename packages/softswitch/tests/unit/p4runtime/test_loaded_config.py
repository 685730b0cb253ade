"""A pipeline config that is loaded once: many pipelines share it, and each has its own state."""

from __future__ import annotations

from pathlib import Path

import pytest
from finsy.proto import p4i, p4r

from softswitch.compiled import CompiledPipeline
from softswitch.errors import SwitchError
from softswitch.jit import MachineCode
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.loaded_config import LoadedConfig, read_p4info
from softswitch.p4runtime.messages import adopt
from softswitch.p4runtime.plain.request import Request
from softswitch.p4runtime.status import Refusal
from switch_harness.p4runtime import (
    CONTROL,
    DELETE,
    INSERT,
    MODIFY,
    SCHEMA,
    config,
    forward,
    identity,
    read,
    update,
)
from switch_harness.wording import mentions

PROGRAM, P4INFO = CONTROL.with_suffix(".json"), CONTROL.with_suffix(".p4info.txtpb")
ALL = p4r.Entity(table_entry=p4r.TableEntry(table_id=identity("forward")))


@pytest.fixture(scope="module")
def loaded() -> LoadedConfig:
    return LoadedConfig.read(PROGRAM, P4INFO)


@pytest.fixture(scope="module")
def code(loaded: LoadedConfig) -> MachineCode:
    return MachineCode(loaded.program)


@pytest.fixture
def control(loaded: LoadedConfig, code: MachineCode) -> ControlledPipeline[CompiledPipeline]:
    return make(loaded, code)


def make(loaded: LoadedConfig, code: MachineCode) -> ControlledPipeline[CompiledPipeline]:
    return ControlledPipeline(loaded, lambda program: CompiledPipeline(program, code), lambda: 0)


def write(control: ControlledPipeline[CompiledPipeline], address: int, kind: int = INSERT) -> str:
    """Write one entry by a request's bytes; the refusal, "" if it is done."""
    request = p4r.WriteRequest(updates=[update(forward(address), kind)])
    (refusal,) = control.write_bytes(Request(request.SerializeToString()))
    return str(refusal or "")


def test_pipelines_of_one_config_share_the_program_and_no_entries(
    loaded: LoadedConfig, code: MachineCode
) -> None:
    first, second = make(loaded, code), make(loaded, code)
    assert first.pipeline.program is second.pipeline.program is loaded.program
    assert first.p4info is second.p4info is loaded.p4info
    assert write(first, 5) == ""
    assert (len(read(first, ALL)), len(read(second, ALL))) == (1, 0)
    assert write(second, 5) == ""


def test_a_loaded_config_has_the_program_and_config_of_its_message(loaded: LoadedConfig) -> None:
    message = adopt(config())
    assert loaded.message == message
    direct = ControlledPipeline(message, CompiledPipeline, lambda: 0)
    assert direct.pipeline.program == loaded.program
    assert direct.adopt_config(loaded.message) and direct.config == loaded.message


def test_an_image_of_the_pipeline_has_its_plain_entries(
    control: ControlledPipeline[CompiledPipeline],
) -> None:
    """Plain entries are stored in the pipeline only, so a restored one accepts what a new one accepts."""
    empty = control.pipeline.memory_image()
    assert write(control, 5) == ""
    one = control.pipeline.memory_image()
    assert write(control, 6) == "" and write(control, 5, DELETE) == ""
    for _ in range(2):
        control.pipeline.load_image(empty)
        assert read(control, ALL) == []
        assert "is not there" in write(control, 6, MODIFY)
        control.pipeline.load_image(one)
        (entity,) = read(control, ALL)
        assert entity.table_entry == forward(5).encode(SCHEMA).table_entry
        assert "is already there" in write(control, 5) and write(control, 5, MODIFY) == ""
        assert write(control, 6) == ""


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (p4r.ForwardingPipelineConfig(p4info=p4i.P4Info()), "needs p4info and p4_device_config"),
        (p4r.ForwardingPipelineConfig(p4_device_config=b"{}"), "needs p4info and p4_device_config"),
        (
            p4r.ForwardingPipelineConfig(p4info=p4i.P4Info(), p4_device_config=PROGRAM.read_bytes()),
            "lacks table",
        ),
        (p4r.ForwardingPipelineConfig(p4info=p4i.P4Info(), p4_device_config=b"{"), "not JSON"),
    ],
    ids=["no program", "no p4info", "another p4info", "not json"],
)
def test_a_message_that_is_no_pipeline_config_is_refused(
    message: p4r.ForwardingPipelineConfig, expected: str
) -> None:
    with pytest.raises(Refusal, match=expected):
        LoadedConfig(adopt(message))


def test_a_program_that_was_parsed_before_is_not_parsed_again(loaded: LoadedConfig) -> None:
    unparsed = config()
    unparsed.p4_device_config = b"not JSON"
    message = adopt(unparsed)
    assert LoadedConfig(message, loaded.program).program == loaded.program
    with pytest.raises(Refusal, match="not JSON"):
        LoadedConfig(message)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing.json"
    with pytest.raises(SwitchError, match=f"^{missing}: No such file"):
        LoadedConfig.read(missing, P4INFO)
    with pytest.raises(SwitchError, match=mentions("missing.json", "file")):
        LoadedConfig.read(PROGRAM, missing)


@pytest.mark.parametrize(("suffix", "form"), [(".txtpb", "text"), (".bin", "binary")])
def test_p4info_is_in_the_format_of_its_suffix(tmp_path: Path, suffix: str, form: str) -> None:
    file = tmp_path / f"some{suffix}"
    message = read_p4info(P4INFO)
    file.write_bytes(str(message).encode() if form == "text" else message.SerializeToString())
    assert read_p4info(file) == message
    file.write_bytes(b"\xff\xff")
    with pytest.raises(SwitchError, match=mentions("P4Info", form)):
        read_p4info(file)
