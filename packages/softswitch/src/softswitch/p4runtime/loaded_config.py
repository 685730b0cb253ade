"""Pipeline configs, read from files and loaded; pipelines of one program share a `LoadedConfig`."""

from __future__ import annotations

from pathlib import Path

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from softswitch.errors import NESTED_TOO_DEEPLY, SwitchError
from softswitch.files import read_file
from softswitch.ir import Program
from softswitch.load.cached import load_cached_program
from softswitch.p4runtime.consistency import check
from softswitch.p4runtime.device_config import extract_program
from softswitch.p4runtime.fitting import fit_to_program
from softswitch.p4runtime.group_actions import add_group_actions
from softswitch.p4runtime.messages import p4i, p4r
from softswitch.p4runtime.p4info import P4Info
from softswitch.p4runtime.parse_errors import describe_parse_error
from softswitch.p4runtime.status import invalid

BINARY_P4INFO_SUFFIXES = (".bin", ".binpb", ".pb")
"""Suffixes of files of P4Info in protobuf's binary format; all others are in its text format."""


class LoadedConfig:
    """The program and P4Info of a config, parsed once; raises Refusal if the config is invalid.

    `program` is that of the message, if it was parsed before. Neither changes, except for the numbers that
    `p4info` gives to strings: so each pipeline has its own P4Info (`make_p4info`).
    """

    def __init__(self, message: p4r.ForwardingPipelineConfig, program: Program | None = None) -> None:
        check_complete(message)
        self.message = message
        try:
            self.program = program or load_cached_program(extract_program(message.p4_device_config))
            self._fitted_p4info = fit_to_program(message.p4info, self.program)
            self._register_widths = {register.name: register.width for register in self.program.registers}
            self.p4info = P4Info(self._fitted_p4info, self._register_widths)
            check(self.p4info, self.program)
            self.program = add_group_actions(self.program, self.p4info)
        except SwitchError as error:
            raise invalid(str(error)) from error
        except RecursionError:
            raise invalid(f"the pipeline config cannot be loaded: {NESTED_TOO_DEEPLY}") from None

    def make_p4info(self) -> P4Info:
        """Return the P4Info of a pipeline; those of pipelines share objects if they have no strings."""
        if not self.p4info.has_strings:
            return self.p4info
        return P4Info(self._fitted_p4info, self._register_widths)

    @classmethod
    def read(cls, program: Path, p4info: Path) -> LoadedConfig:
        return cls(
            p4r.ForwardingPipelineConfig(p4info=read_p4info(p4info), p4_device_config=read_file(program))
        )


def check_complete(message: p4r.ForwardingPipelineConfig) -> None:
    if not message.HasField("p4info") or not message.p4_device_config:
        raise invalid("the pipeline config needs p4info and p4_device_config (BMv2 JSON)")


def read_p4info(path: Path) -> p4i.P4Info:
    data = read_file(path)
    try:
        if path.suffix in BINARY_P4INFO_SUFFIXES:
            return p4i.P4Info.FromString(data)
        return text_format.Parse(data, p4i.P4Info())
    except (DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        format_name = "binary" if path.suffix in BINARY_P4INFO_SUFFIXES else "text"
        reason = (
            describe_parse_error(error)
            or f"the file is binary; names of binary P4Info end in {', '.join(BINARY_P4INFO_SUFFIXES)}"
        )
        raise SwitchError(f"{path} is not P4Info in protobuf's {format_name} format: {reason}") from None
    except RecursionError:
        raise SwitchError(f"{path} cannot be parsed: {NESTED_TOO_DEEPLY}") from None
