"""Parsing of numbers, addresses and matches in BMv2's notation (BMv2: tools/runtime_CLI.py)."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address, IPv6Address

from softswitch.commands.names import CommandError, NamedField
from softswitch.runtime.keys import PREFIX_LENGTH_BITS, SEPARATORS

IPV4_BITS, MAC_BITS, IPV6_BITS = 32, 48, 128


def parse_value(text: str, width: int) -> int:
    """Parse a number, in decimal or with a prefix, or an address of `width` bits; raises ValueError."""
    if width == IPV4_BITS and "." in text:
        try:
            return int(IPv4Address(text))
        except AddressValueError:
            raise ValueError("Invalid IPv4 address") from None
    if width == MAC_BITS and ":" in text:
        return _parse_mac(text)
    if width == IPV6_BITS and ":" in text:
        try:
            return int(IPv6Address(text))
        except AddressValueError:
            raise ValueError("Invalid IPv6 address") from None
    try:
        value = int(text, 0)
    except ValueError:
        raise ValueError("Invalid input, could not cast to integer, try in hex with 0x prefix") from None
    if value < 0:
        raise ValueError("Parameter is negative")
    if value >> width:
        raise ValueError(f"Parameter is too large, it has to fit in bit<{width}>")
    return value


def parse_match(field: NamedField, text: str) -> tuple[int, ...]:
    """Parse a match; return its value, and prefix length, mask or upper bound. Raises CommandError."""
    separator = SEPARATORS.get(field.kind)
    if separator is None:
        return (_parse_key_part(text, field.width, text),)
    parts = text.split(separator)
    if len(parts) != 2:
        raise CommandError(f"Invalid match key: {_FORMAT_ERRORS[field.kind].format(text)}", text)
    first = _parse_key_part(parts[0], field.width, text)
    second_bits = PREFIX_LENGTH_BITS if field.kind == "lpm" else field.width
    second = _parse_key_part(parts[1], second_bits, text)
    if field.kind == "lpm" and second > field.width:
        raise CommandError(
            f"Invalid match key: prefix length {second} of {text} is above {field.width}", text
        )
    if field.kind == "range" and first > second:
        raise CommandError(f"Invalid match key: range start is above range end in {text}", text)
    return first, second


def parse_int(text: str, description: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise CommandError(f"Error: Bad format for {description}", text) from None


def octets(value: int, width: int) -> bytes:
    return value.to_bytes((width + 7) // 8, "big")


def _parse_mac(text: str) -> int:
    try:
        address = bytes(int(part, 16) for part in text.split(":"))
    except ValueError:
        address = b""
    if len(address) != MAC_BITS // 8:
        raise ValueError("Invalid MAC address")
    return int.from_bytes(address, "big")


def _parse_key_part(text: str, width: int, word: str) -> int:
    try:
        return parse_value(text, width)
    except ValueError as error:
        raise CommandError(f"Invalid match key: Error while parsing {text} - {error}", word) from None


_FORMAT_ERRORS = {
    "lpm": "Invalid LPM value {}, use '/' to separate prefix and length",
    "ternary": "Invalid ternary value {}, use '&&&' to separate key and mask",
    "optional": "Invalid optional value {}, use '&&&' to separate key and mask",
    "range": "Invalid range value {}, use '->' to separate range start and range end",
}
