"""BMv2's command line (options_parse.cpp, and main.cpp of simple_switch and simple_switch_grpc, 1.15).

General options come first, options of the target after `--`. Options that softswitch does not implement are
accepted, with a warning that says what is not supported.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from softswitch.errors import SwitchError
from softswitch.settings import Datapath

GRPC, THRIFT = "simple_switch_grpc", "simple_switch"
THRIFT_PORT = 9090
GRPC_ADDRESS = "0.0.0.0:9559"
LEVELS = ("trace", "debug", "info", "warn", "error", "off")
DATAPATHS = tuple(datapath.value for datapath in Datapath)


class Option(NamedTuple):
    """An option with its argument (None for a flag), and the warning if softswitch does not implement it."""

    names: tuple[str, ...]
    argument: str | None = None
    help: str = ""
    warning: str | None = None
    keywords: Mapping[str, Any] = MappingProxyType({})  # keyword arguments of `add_argument`


_EMPTY_STATE_WARNING = "tables and registers begin empty"
GENERAL_OPTIONS = (
    Option(
        ("-i", "--interface"),
        "PORT@INTERFACE",
        "A port and its interface; repeat the option for each port.",
        keywords={"action": "append"},
    ),
    Option(
        ("--pcap",),
        "DIR",
        "Write the frames of each port to DIR/INTERFACE_in.pcap and _out.pcap; DIR is . by default.",
        keywords={"nargs": "?", "const": "."},
    ),
    Option(("--device-id",), "N", "Number of the device in P4Runtime, 0 by default.", keywords={"type": int}),
    Option(("--log-console",), None, "Log to stdout."),
    Option(("--log-file",), "FILE", "Log to FILE."),
    Option(("-L", "--log-level"), "LEVEL", ", ".join(LEVELS), keywords={"choices": LEVELS}),
    Option(("--log-flush",), None, "Without effect: each line is written at once."),
    Option(("--log-file-max-size",), "BYTES", "Size of FILE at which it is rotated.", keywords={"type": int}),
    Option(("--log-file-max-files",), "N", "Number of rotated files.", keywords={"type": int}),
    Option(("--no-p4",), None, "Wait for a program over P4Runtime."),
    Option(("--thrift-port",), "N", "Serve Thrift and P4Runtime at this port.", keywords={"type": int}),
    Option(("-v", "--version"), None, "Print the version of BMv2 that softswitch replaces, and its own."),
    Option(("--json-version",), None, "Print the newest version of BMv2 JSON that is supported."),
    Option(("--max-port-count",), "N", warning="there are 64 ports at most", keywords={"type": int}),
    Option(("--nanolog",), "ADDRESS", warning="there is no event log over nanomsg"),
    Option(
        ("--notifications-addr",),
        "ADDRESS",
        "Send digests over nanomsg at ADDRESS, too; needs pynng and the Thrift port.",
    ),
    Option(("--debugger",), None, warning="there is no debugger"),
    Option(("--debugger-addr",), "ADDRESS", warning="there is no debugger"),
    Option(("--restore-state",), "FILE", warning=_EMPTY_STATE_WARNING),
    Option(
        ("--dump-packet-data",), "BYTES", warning="packets are not logged; use --pcap", keywords={"type": int}
    ),
    Option(
        ("--ret-zero-on-invalid-hdr-read",),
        None,
        "Without effect: fields of invalid headers always read as 0.",
    ),
    Option(("--warn-on-invalid-hdr-read",), None, warning="reads of invalid headers are not logged"),
    Option(
        ("--use-files",),
        "SECONDS",
        "Read frames from INTERFACE_in.pcap, SECONDS after the start, and write INTERFACE_out.pcap.",
        keywords={"type": int},
    ),
    Option(("--packet-in",), "ADDRESS", "Receive and send frames over nanomsg at ADDRESS; needs pynng."),
)
_REPLICA_WARNING = "there is room for 65535 groups and 65536 replicas"
_COMMON = (
    Option(("--priority-queues",), "N", "Queues of a port, 1 by default.", keywords={"type": int}),
    Option(("--drop-port",), "N", "Port that drops packets: 511 only.", keywords={"type": int}),
    Option(("--max-mc-groups",), "N", warning=_REPLICA_WARNING, keywords={"type": int}),
    Option(("--max-l1-entries",), "N", warning=_REPLICA_WARNING, keywords={"type": int}),
    Option(("--max-l2-entries",), "N", warning=_REPLICA_WARNING, keywords={"type": int}),
    Option(("--load-modules",), "FILES", warning="modules are not loaded"),
)
_OWN = (  # softswitch's own
    Option(
        ("--allow-user",),
        "USER",
        "User of this machine who may call, besides root and the one who started the switch; repeat it.",
        keywords={"action": "append"},
    ),
    Option(("--allow-everyone",), None, "Serve every client that reaches the gRPC port."),
    Option(
        ("--datapath",),
        "MODE",
        f"{', '.join(DATAPATHS)}; commands on ports, queues and CRCs need sockets.",
        keywords={"choices": DATAPATHS},
    ),
)
TARGET_OPTIONS = {
    THRIFT: (
        *_COMMON,
        *_OWN,
        Option(("--enable-swap",), None, warning="programs are swapped over P4Runtime"),
    ),
    GRPC: (
        *_COMMON,
        *_OWN,
        Option(("--disable-swap",), None, warning="programs can be swapped over P4Runtime"),
        Option(("--grpc-server-addr",), "HOST:PORT", f"Address of P4Runtime; {GRPC_ADDRESS} by default."),
        Option(("--grpc-server-ssl",), None, "Clients need TLS."),
        Option(("--grpc-server-cacert",), "FILE", "CA of the clients' certificates."),
        Option(("--grpc-server-cert",), "FILE", "The server's certificate."),
        Option(("--grpc-server-key",), "FILE", "The server's private key."),
        Option(("--grpc-server-with-client-auth",), None, "Clients need a certificate."),
        Option(("--cpu-port",), "N", "Number of the controller's port, 1 to 510.", keywords={"type": int}),
        Option(("--dp-grpc-server-addr",), "HOST:PORT", "Receive and send frames over gRPC at HOST:PORT."),
    ),
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SwitchError(message)


def parse(program: str, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; raises SwitchError. `warnings` of the result lists options without effect."""
    general, target = _split_at_separator(arguments)
    general_parser = _make_parser(program, GENERAL_OPTIONS)
    general_parser.add_argument("-h", "--help", action="store_true")
    general_parser.add_argument("program", nargs="?")
    values, unknown = general_parser.parse_known_args(general)
    if values.help:
        print(help_of(program), end="")
        raise SystemExit(0)
    _reject_unknown(unknown, {name for option in TARGET_OPTIONS[program] for name in option.names})
    target_parser = _make_parser(program, TARGET_OPTIONS[program])
    if values.program is None:
        target_parser.add_argument("program", nargs="?")
    target_values, unknown = target_parser.parse_known_args(target)
    _reject_unknown(unknown, ())
    merged = argparse.Namespace(**{**vars(values), **vars(target_values)})
    merged.warnings = [
        f"{option.names[-1]}: {option.warning}"
        for option in (*GENERAL_OPTIONS, *TARGET_OPTIONS[program])
        if option.warning is not None and getattr(merged, _destination(option)) not in (None, False)
    ]
    return merged


def help_of(program: str) -> str:
    general, target = _make_parser(program, GENERAL_OPTIONS), _make_parser(program, TARGET_OPTIONS[program])
    general.usage = f"{program} [options] PROGRAM.json [-- target options]"
    _, _, target_help = target.format_help().partition("\n\n")  # without its usage
    parts = general.format_help(), target_help
    return f"\n{'-' * 8} after `--`:\n".join(parts)


def _make_parser(program: str, options: Iterable[Option]) -> _Parser:
    parser = _Parser(prog=program, add_help=False)
    for option in options:
        help_text = option.help if option.warning is None else f"Without effect: {option.warning}."
        if option.argument is None:
            parser.add_argument(*option.names, action="store_true", help=help_text)
        else:
            parser.add_argument(*option.names, metavar=option.argument, help=help_text, **option.keywords)
    return parser


def _split_at_separator(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    if "--" not in arguments:
        return arguments, ()
    index = list(arguments).index("--")
    return arguments[:index], arguments[index + 1 :]


def _reject_unknown(unknown: Sequence[str], target_options: Iterable[str]) -> None:
    if unknown:
        word = unknown[0].partition("=")[0]
        if word in target_options:
            raise SwitchError(f"{word} is an option of the target: it goes after `--`")
        kind = "option" if word.startswith("-") else "argument"
        raise SwitchError(f"{word}: BMv2 has no such {kind}, see --help")


def _destination(option: Option) -> str:
    return option.names[-1].lstrip("-").replace("-", "_")
