"""TLS of the gRPC port: certificate, key and, for mutual TLS, the CA of clients, from files."""

from __future__ import annotations

import ssl
from pathlib import Path

import grpc

from softswitch.errors import SwitchError
from softswitch.files import read_file


def load_credentials(cert: Path, key: Path, clients_ca: Path | None = None) -> grpc.ServerCredentials:
    """Load credentials from PEM files; `clients_ca` must sign clients' certificates. Raises SwitchError."""
    certificate_chain, private_key = read_file(cert), read_file(key)
    ca = None if clients_ca is None else read_file(clients_ca)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:  # check the files, because gRPC would only report that it cannot listen
        context.load_cert_chain(cert, key)
    except ssl.SSLError as error:
        raise SwitchError(f"{cert} and {key} are not certificate and key in PEM: {error.reason}") from None
    if clients_ca is not None:
        try:
            context.load_verify_locations(clients_ca)
        except ssl.SSLError as error:
            raise SwitchError(f"{clients_ca} has no certificates in PEM: {error.reason}") from None
    return grpc.ssl_server_credentials(
        [(private_key, certificate_chain)], root_certificates=ca, require_client_auth=ca is not None
    )
