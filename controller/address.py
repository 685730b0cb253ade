"""The address of a switch, and whether anything listens there. This module needs no P4Runtime client."""

from __future__ import annotations

import re
import socket

from pydantic import Field

from controller.errors import DeviceError
from foundation.settings import Strict

DEFAULT_ADDRESS, DEFAULT_DEVICE_ID = "127.0.0.1:9559", 1
CONNECT_TIMEOUT_S = 5.0


class SwitchAddress(Strict):
    address: str = DEFAULT_ADDRESS
    """P4Runtime address of the switch."""
    device_id: int = Field(default=DEFAULT_DEVICE_ID, ge=1)
    """Device id of the switch."""


def check_address(address: str) -> tuple[str, int]:
    """Return the host and the port of a switch's address; raise `DeviceError` if it is malformed."""
    host, _, port = address.rpartition(":")
    is_host_valid = re.fullmatch(r"[^\s:/\[\]]+|\[[0-9a-fA-F:.]+\]", host) is not None
    if not (is_host_valid and re.fullmatch(r"[0-9]{1,5}", port) and 0 < int(port) < 2**16):
        raise DeviceError(f"switch address: expected HOST:PORT, as {DEFAULT_ADDRESS}, got {address!r}")
    return host.strip("[]"), int(port)


def check_listening(address: str) -> None:
    """Raise `DeviceError` if the switch's host refuses connections, before P4Runtime's client is imported."""
    try:
        socket.create_connection(check_address(address), CONNECT_TIMEOUT_S).close()
    except ConnectionRefusedError:
        raise no_answer(address) from None
    except OSError:
        pass  # the client finds out more


def accepts_connections(address: str) -> bool:
    try:
        socket.create_connection(check_address(address), CONNECT_TIMEOUT_S).close()
    except OSError:
        return False
    return True


def no_answer(address: str) -> DeviceError:
    return DeviceError(f"no switch answers at {address}; is it running, and is the address right?")
