"""The gRPC port with TLS: which clients can connect, and errors about wrong files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
import trustme
from finsy.proto import p4r, p4r_grpc

from softswitch import processes
from softswitch.errors import SwitchError
from softswitch.p4runtime.tls import load_credentials
from switch_harness.waiting import PATIENCE_S
from switch_harness.wording import mentions

OURS, STRANGER = trustme.CA(), trustme.CA()


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    switch = OURS.issue_cert("127.0.0.1")
    names = {name: tmp_path / f"{name}.pem" for name in ("cert", "key", "ca")}
    names["cert"].write_bytes(switch.cert_chain_pems[0].bytes())
    names["key"].write_bytes(switch.private_key_pem.bytes())
    names["ca"].write_bytes(OURS.cert_pem.bytes())
    return names


def credentials(trusted: trustme.CA, client: trustme.CA | None = None) -> grpc.ChannelCredentials:
    if client is None:
        return grpc.ssl_channel_credentials(trusted.cert_pem.bytes())
    own = client.issue_cert("controller")
    return grpc.ssl_channel_credentials(
        trusted.cert_pem.bytes(), own.private_key_pem.bytes(), own.cert_chain_pems[0].bytes()
    )


@contextmanager
def switch(*flags: str) -> Iterator[str]:
    with processes.softswitch(options=[*processes.WITHOUT_PROGRAM, *flags]) as started:
        yield started.address


def code(channel: grpc.Channel) -> str:
    with channel:
        try:
            p4r_grpc.P4RuntimeStub(channel).Capabilities(p4r.CapabilitiesRequest(), timeout=PATIENCE_S)
        except grpc.RpcError as error:
            return str(error.code().name)
        return "OK"


def test_clients_without_tls_or_with_another_authority_cannot_connect(files: dict[str, Path]) -> None:
    with switch("--tls-cert", str(files["cert"]), "--tls-key", str(files["key"])) as address:
        assert code(grpc.secure_channel(address, credentials(OURS))) == "OK"
        assert code(grpc.secure_channel(address, credentials(STRANGER))) == "UNAVAILABLE"
        assert code(grpc.insecure_channel(address)) == "UNAVAILABLE"


def test_with_an_authority_clients_need_its_certificate(files: dict[str, Path]) -> None:
    flags = [text for name, path in files.items() for text in (f"--tls-{name}", str(path))]
    with switch(*flags) as address:
        assert code(grpc.secure_channel(address, credentials(OURS, OURS))) == "OK"
        assert code(grpc.secure_channel(address, credentials(OURS))) == "UNAVAILABLE"
        assert code(grpc.secure_channel(address, credentials(OURS, STRANGER))) == "UNAVAILABLE"


def test_wrong_files_are_one_clear_error(files: dict[str, Path], tmp_path: Path) -> None:
    cert, key, ca = files.values()
    empty = tmp_path / "empty.pem"
    with pytest.raises(SwitchError, match=mentions("empty.pem", "directory")):
        load_credentials(empty, key)
    empty.touch()
    with pytest.raises(SwitchError, match=mentions("PEM", "certificate")):
        load_credentials(empty, key)
    with pytest.raises(SwitchError, match=mentions("ca.pem", "certificate")):
        load_credentials(cert, ca)
    with pytest.raises(SwitchError, match=mentions("empty.pem", "PEM")):
        load_credentials(cert, key, empty)
    other = tmp_path / "other.pem"
    other.write_bytes(STRANGER.issue_cert("x").private_key_pem.bytes())
    with pytest.raises(SwitchError, match="KEY_VALUES_MISMATCH"):
        load_credentials(cert, other)
