"""The subcommand `run-as`, which installed scripts call: a switch with BMv2's command line."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import grpc

from softswitch import __version__
from softswitch.bmv2 import logs
from softswitch.bmv2.options import GRPC, GRPC_ADDRESS, TARGET_OPTIONS, THRIFT_PORT, parse
from softswitch.errors import SwitchError
from softswitch.extras import installation
from softswitch.p4runtime.access import make_policy
from softswitch.p4runtime.tls import load_credentials
from softswitch.settings import (
    Datapath,
    FrameTransport,
    Settings,
    ThriftSettings,
    parse_interface,
    parse_options_by_port,
)
from softswitch.v1model import DROP_PORT, MAX_PRIORITY_QUEUES

VERSION, JSON_VERSION = "1.15.5", "2.24"
"""Version of BMv2 that softswitch replaces, and newest version of BMv2 JSON that it reads."""
_ANY_PORT = "127.0.0.1:0"  # of the gRPC server that is reached by the Thrift port only
MAX_PORT = 65535


def main(arguments: list[str]) -> None:
    name, *options = arguments or ["nothing"]  # the error says: got nothing
    try:
        if name not in TARGET_OPTIONS:
            raise SwitchError(f"expected one of {', '.join(TARGET_OPTIONS)}, got {name}")
        values = parse(name, options)
        if values.version:
            print(f"{VERSION} (softswitch {__version__})")
        elif values.json_version:
            print(JSON_VERSION)
        else:
            _run_switch(name, values)
    except SwitchError as error:
        sys.exit(f"{name}: error: {error}")


def _run_switch(name: str, values: argparse.Namespace) -> None:
    settings = settings_of(name, values)
    _start_logs(values)
    for line in values.warnings:
        print(f"{name}: {line}", file=sys.stderr, flush=True)
    # Imported late, because it takes 0.7 s, for which --version and errors need not wait.
    import_module("softswitch.running").run(settings)


def settings_of(name: str, values: argparse.Namespace) -> Settings:
    if values.program is None and not values.no_p4:
        raise SwitchError("expected a program (BMv2 JSON) or --no-p4, got neither")
    if values.program is not None and values.no_p4:
        values.warnings.append(f"{values.program}: not loaded, because of --no-p4")
    cpu_port = getattr(values, "cpu_port", None)
    _check_range("--cpu-port", cpu_port, low=1, high=DROP_PORT - 1)
    _check_range("--drop-port", values.drop_port, low=DROP_PORT, high=DROP_PORT)
    _check_range("--priority-queues", values.priority_queues, low=1)
    _check_range("--device-id", values.device_id, low=0)
    return Settings(
        program=None if values.no_p4 else Path(values.program),
        ports=parse_options_by_port("-i", values.interface or [], parse_interface),
        device_id=values.device_id or 0,
        addresses=_addresses(name, values),
        thrift=thrift_settings(name, values),
        credentials=_credentials(values) if name == GRPC else None,
        access=make_policy(
            values.allow_user or (), is_open=values.allow_everyone or _needs_certificate(values)
        ),
        refuses_unset_config=True,
        priority_queues=min(values.priority_queues or 1, MAX_PRIORITY_QUEUES),
        cpu_port=cpu_port,
        datapath=Datapath(values.datapath or Datapath.AUTO),
        pcap=_pcap_folder(values.pcap),
        frames=_frame_transport(values),
    )


def _frame_transport(values: argparse.Namespace) -> FrameTransport | None:
    address, nanomsg = getattr(values, "dp_grpc_server_addr", None), values.packet_in
    delay_s = values.use_files
    if nanomsg is not None and delay_s is not None:
        raise SwitchError("expected --use-files or --packet-in, got both")
    if address is None and nanomsg is None and delay_s is None:
        return None
    if values.pcap is not None:
        values.warnings.append("--pcap: only frames of interfaces are captured")
    if values.datapath is not None:
        values.warnings.append("--datapath: frames do not come from interfaces")
    if values.interface and (address is not None or nanomsg is not None):
        values.warnings.append("--interface: frames do not come from interfaces")
    if address is not None:
        return FrameTransport("grpc", address)
    return FrameTransport("files", str(delay_s)) if nanomsg is None else FrameTransport("nanomsg", nanomsg)


def _check_range(option: str, value: int | None, low: int, high: int | None = None) -> None:
    if value is not None and (value < low or (high is not None and value > high)):
        expected = f"{low} or more" if high is None else f"{low}" if low == high else f"{low} to {high}"
        raise SwitchError(f"{option} {value}: expected {expected}")


def _addresses(name: str, values: argparse.Namespace) -> tuple[str, ...]:
    """Return the addresses of P4Runtime, which the Thrift port serves, too."""
    if name != GRPC:
        return (_ANY_PORT,)
    address: str = values.grpc_server_addr or GRPC_ADDRESS
    return (address,)


def thrift_settings(name: str, values: argparse.Namespace) -> ThriftSettings | None:
    """Return the Thrift port; `simple_switch_grpc` has one only if it is given, and is not the gRPC port."""
    if name == GRPC and values.thrift_port is None:
        return None
    port = THRIFT_PORT if values.thrift_port is None else values.thrift_port
    _check_range("--thrift-port", port, low=0, high=MAX_PORT)
    if name == GRPC and _addresses(name, values)[0].endswith(f":{port}"):
        values.warnings.append(f"--thrift-port {port}: no Thrift is served at the port of --grpc-server-addr")
        return None
    # A certificate does not let a client in here, since Thrift has no TLS.
    access = make_policy(values.allow_user or (), is_open=values.allow_everyone)
    if values.notifications_addr is not None and find_spec("pynng") is None:
        values.warnings.append(
            f"--notifications-addr: digests over nanomsg need pynng: {installation('pynng')}"
        )
    return ThriftSettings(f"127.0.0.1:{port}", access, values.notifications_addr)


def _credentials(values: argparse.Namespace) -> grpc.ServerCredentials | None:
    cert, key, ca = values.grpc_server_cert, values.grpc_server_key, values.grpc_server_cacert
    if not values.grpc_server_ssl:
        if cert or key or ca or values.grpc_server_with_client_auth:
            values.warnings.append("certificates are not used without --grpc-server-ssl")
        return None
    if cert is None or key is None:
        raise SwitchError("--grpc-server-ssl needs --grpc-server-cert and --grpc-server-key")
    if values.grpc_server_with_client_auth and ca is None:
        raise SwitchError("--grpc-server-with-client-auth needs --grpc-server-cacert")
    clients_ca = Path(ca) if values.grpc_server_with_client_auth else None
    return load_credentials(Path(cert), Path(key), clients_ca)


def _needs_certificate(values: argparse.Namespace) -> bool:
    """Return whether clients need a certificate, which then decides who may call."""
    return bool(
        getattr(values, "grpc_server_ssl", False) and getattr(values, "grpc_server_with_client_auth", False)
    )


def _pcap_folder(pcap: str | None) -> Path | None:
    if pcap is None:
        return None
    if not os.path.isdir(pcap):
        raise SwitchError(f"--pcap {pcap}: there is no such folder")
    return Path(pcap)


def _start_logs(values: argparse.Namespace) -> None:
    if values.log_console and values.log_file is not None:
        raise SwitchError("expected --log-console or --log-file, got both")
    max_bytes = logs.MAX_FILE_BYTES if values.log_file_max_size is None else values.log_file_max_size
    max_files = logs.MAX_FILES if values.log_file_max_files is None else values.log_file_max_files
    _check_range("--log-file-max-size", max_bytes, low=1)
    file = None if values.log_file is None else Path(values.log_file)
    logs.configure(values.log_level or "trace", values.log_console, file, max_bytes, max_files)
