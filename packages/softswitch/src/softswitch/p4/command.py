"""The subcommands `compile`, and `compile-as`, which scripts with p4c's program names call."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from nativekit.files import replace_file
from softswitch.errors import ProgramError, SwitchError
from softswitch.p4.bmv2_json import bmv2_json_text
from softswitch.p4.compiler import compile_file, parse_file, preprocess_file
from softswitch.p4.diagnostics import SourceFiles
from softswitch.p4.lower_program import Lowered
from softswitch.p4.p4info import message_text, p4info
from softswitch.p4.p4info_entries import entries
from softswitch.p4.preprocessor import parse_definition

DRIVER, BACK_END, CHECKER = "p4c", "p4c-bm2-ss", "p4test"
NAMES = (DRIVER, BACK_END, CHECKER)
"""Programs of p4c whose options are taken; the driver writes into a folder, and p4test writes nothing."""
_TARGETS, _ARCHITECTURES, _VERSIONS = ("bmv2", "bmv2-ss"), ("v1model",), ("p4-16", "p4_16", "16")
_BINARY_SUFFIXES, _JSON_SUFFIX = (".bin", ".binpb", ".pb"), ".json"
_FORMATS = ("text", "binary", "json")


def main(arguments: list[str]) -> None:
    name = "softswitch compile"
    is_p4c = bool(arguments) and arguments[0] in NAMES
    if is_p4c:
        name, *arguments = arguments
    options = _parser(name, is_p4c=is_p4c).parse_args([each for each in arguments if each != "--"])
    try:
        run(name, options)
    except SwitchError as error:
        sys.exit(str(error) if isinstance(error, ProgramError) else f"{name}: error: {error}")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")


def _parser(name: str, *, is_p4c: bool) -> argparse.ArgumentParser:
    about = "Compile P4_16 source for v1model to BMv2's JSON and to P4Info."
    parser = _Parser(prog=name, description=about, allow_abbrev=False)
    parser.add_argument("program", type=Path, metavar="PROGRAM", help="P4 source.")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="BMv2 JSON, or a folder for it; default: PROGRAM.json."
    )
    parser.add_argument(
        "--p4runtime-files", metavar="FILES", help="P4Info, in the format of each file's suffix."
    )
    parser.add_argument("--p4runtime-file", dest="p4runtime_files", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--p4runtime-format", choices=_FORMATS, help="Format of P4Info, whatever the suffix.")
    parser.add_argument(
        "--p4runtime-entries-files", metavar="FILES", help="Constant entries as a WriteRequest."
    )
    parser.add_argument(
        "-I",
        dest="folders",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="Folder of included files.",
    )
    parser.add_argument(
        "-D", dest="definitions", action="append", default=[], metavar="NAME[=VALUE]", help="Macro."
    )
    parser.add_argument(
        "-U", dest="undefined", action="append", default=[], metavar="NAME", help=argparse.SUPPRESS
    )
    parser.add_argument("-E", dest="preprocess", action="store_true", help="Print the preprocessed source.")
    parser.add_argument("--pp", metavar="FILE", help="Write the preprocessed source to FILE.")
    parser.add_argument("--parse-only", action="store_true", help="Only parse.")
    parser.add_argument("--Werror", nargs="?", const="", metavar="NAMES", help="Take warnings for errors.")
    parser.add_argument("--Wdisable", nargs="?", const="", metavar="NAMES", help="Print no warnings.")
    if is_p4c:
        _add_options_of_p4c(parser)
    return parser


def _add_options_of_p4c(parser: argparse.ArgumentParser) -> None:
    """Add options of p4c that change nothing here, or that name what is done in any case."""
    parser.add_argument("--target", "-b", choices=_TARGETS, help="Only bmv2.")
    parser.add_argument("--arch", "-a", choices=_ARCHITECTURES, help="Only v1model.")
    parser.add_argument("--std", "-x", choices=_VERSIONS, help="Only P4_16.")
    parser.add_argument("--p4v", choices=_VERSIONS, help=argparse.SUPPRESS)
    for flag in ("--emit-externs", "--nocpp", "-g", "--ndebug", "--excludeFrontendPasses"):
        parser.add_argument(flag, action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--Wwarn", nargs="?", const="", help=argparse.SUPPRESS)
    parser.add_argument("--version", action="version", version="p4c 1.2.5 (softswitch)")


def run(name: str, options: argparse.Namespace) -> None:
    sources = SourceFiles()
    definitions = [parse_definition(each) for each in options.definitions]
    if options.preprocess or options.pp is not None:
        text = preprocess_file(options.program, options.folders, definitions, sources)
        if options.pp is None:
            sys.stdout.write(text)
            return
        _write(Path(options.pp), text.encode())
    if options.parse_only:
        parse_file(options.program, options.folders, definitions, sources)
        return
    lowered = compile_file(options.program, options.folders, definitions, sources)
    _report_warnings(sources, options)
    outputs = list(_outputs(name, options, lowered))  # all are made before any is written
    for file, content in outputs:
        _write(file, content)


def _report_warnings(sources: SourceFiles, options: argparse.Namespace) -> None:
    if options.Wdisable is not None:
        return
    for each in sources.warnings:
        print(sources.render(each), file=sys.stderr)
    if options.Werror is not None and sources.warnings:
        raise SwitchError(f"{len(sources.warnings)} warnings, which --Werror takes for errors")


def _outputs(name: str, options: argparse.Namespace, lowered: Lowered) -> list[tuple[Path, bytes]]:
    outputs: list[tuple[Path, bytes]] = []
    json_file = _json_file(name, options)
    if json_file is not None:
        outputs.append((json_file, bmv2_json_text(lowered)))
    for given, make in ((options.p4runtime_files, p4info), (options.p4runtime_entries_files, entries)):
        for file in (given or "").split(","):
            if file:
                outputs.append((Path(file), _encoded(lowered, Path(file), options.p4runtime_format, make)))
    return outputs


def _json_file(name: str, options: argparse.Namespace) -> Path | None:
    if name == CHECKER or (name == BACK_END and options.output is None):
        return None
    default = options.program.with_suffix(".json").name
    if options.output is None:
        return Path(default) if name == DRIVER else options.program.with_suffix(".json")
    output = Path(options.output)
    is_folder = name == DRIVER or output.is_dir() or options.output.endswith("/")
    return output / default if is_folder else output


def _encoded(lowered: Lowered, file: Path, given_format: str | None, make: Callable[[Lowered], Any]) -> bytes:
    message = make(lowered)
    kind = given_format or (
        "binary" if file.suffix in _BINARY_SUFFIXES else "json" if file.suffix == _JSON_SUFFIX else "text"
    )
    if kind == "binary":
        return bytes(message.SerializeToString(deterministic=True))
    if kind == "json":
        from google.protobuf import json_format  # rarely needed

        return json_format.MessageToJson(message).encode() + b"\n"
    return message_text(message).encode()


def _write(file: Path, content: bytes) -> None:
    try:
        if str(file) == "/dev/stdout":
            sys.stdout.buffer.write(content)
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, content)
    except OSError as error:
        raise SwitchError(f"{file}: {error.strerror}") from None
