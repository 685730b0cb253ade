"""Beyond this machine a scheduler has TLS, unless the configuration says that its network is isolated."""

from __future__ import annotations

import pytest

from hotline_machines.errors import MachinesError
from hotline_machines.security import check_address, host_of


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:8786", "tcp://127.9.9.9:1", "tcp://[::1]:8786"])
def test_a_scheduler_on_the_loopback_needs_no_tls(address: str) -> None:
    check_address(address, allow_plaintext=False)


@pytest.mark.parametrize(
    "address", ["tcp://192.0.2.1:8786", "tcp://0.0.0.0:1", "tcp://[2001:db8::1]:1", "tcp://no-such.invalid:1"]
)
def test_a_scheduler_beyond_the_loopback_needs_tls_unless_plaintext_is_allowed(address: str) -> None:
    with pytest.raises(MachinesError) as refused:
        check_address(address, allow_plaintext=False)
    message = str(refused.value)
    assert message.startswith(f"MACHINES={address}: expected tls://HOST:PORT beyond this machine")
    assert "code as root" in message and "plaintext = true" in message
    check_address(address, allow_plaintext=True)
    check_address(address.replace("tcp", "tls"), allow_plaintext=False)


def test_the_host_is_parsed_from_an_address() -> None:
    assert host_of("tls://[2001:db8::1]:8786") == "2001:db8::1"
    assert host_of("tcp://head:8786") == "head"
