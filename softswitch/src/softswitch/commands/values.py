"""Parsing of numbers, addresses and matches in BMv2's notation (BMv2: tools/runtime_CLI.py)."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address, IPv6Address

from softswitch.commands.names import CommandError, NamedField

IPV4_BITS, MAC_BITS, IPV6_BITS = 32, 48, 128
_PREFIX_LENGTH_BITS = 16  # more than any length needs, which is checked afterwards
SEPARATORS = {"lpm": "/", "ternary": "&&&", "range": "->"}


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


def parse_match(field: NamedField, text: str) -> str:
    """Parse a match; return it in the notation of `softswitch.runtime`. Raises CommandError."""
    separator = SEPARATORS.get(field.kind)
    if separator is None:
        return f"{_parse_key_part(text, field.width, text):#x}"
    parts = text.split(separator)
    if len(parts) != 2:
        raise CommandError(f"Invalid match key: {_FORMAT_ERRORS[field.kind].format(text)}", text)
    first = _parse_key_part(parts[0], field.width, text)
    if field.kind == "lpm":
        length = _parse_key_part(parts[1], _PREFIX_LENGTH_BITS, text)
        if length > field.width:
            raise CommandError(
                f"Invalid match key: prefix length {length} of {text} is above {field.width}", text
            )
        return f"{first:#x}/{length}"
    second = _parse_key_part(parts[1], field.width, text)
    if field.kind == "range" and first > second:
        raise CommandError(f"Invalid match key: range start is above range end in {text}", text)
    return f"{first:#x}{separator}{second:#x}"


def parse_int(text: str, description: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise CommandError(f"Error: Bad format for {description}", text) from None


def octets(value: int, width: int) -> bytes:
    return value.to_bytes((width + 7) // 8, "big")


def match_parts(field: NamedField, match: str) -> tuple[str, ...]:
    """Return the parts of a match of `softswitch.runtime`: hexadecimal bytes, a prefix length in decimal."""
    separator = SEPARATORS.get(field.kind)
    parts = [match] if separator is None else match.split(separator)
    if field.kind == "lpm":
        return octets(int(parts[0], 16), field.width).hex(), parts[1]
    return tuple(octets(int(part, 16), field.width).hex() for part in parts)


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
    "range": "Invalid range value {}, use '->' to separate range start and range end",
}
