"""Frames that tests may give and expect: their forms, masks, and which outputs are alike."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether

from softswitch.errors import SwitchError
from softswitch.testing import Mask, Switch
from softswitch.testing.mask import to_bytes
from softswitch.testing.outputs import are_alike, read_expected
from switch_harness import PROGRAMS
from switch_harness.wording import mentions

PACKET = (
    Ether(dst="00:00:00:00:00:0b", src="00:00:00:00:00:0a") / IP(dst="10.0.0.2") / UDP(dport=7) / b"payload"
)
FRAME = bytes(PACKET)
FORMS: dict[str, Any] = {
    "bytes": FRAME,
    "bytearray": bytearray(FRAME),
    "memoryview": memoryview(FRAME),
    "Scapy": PACKET,
    "text": FRAME.hex(),
    "text with spaces": FRAME.hex(" ", 2),
    "text with colons": FRAME.hex(":"),
    "text with 0x": f"0x{FRAME.hex().upper()}",
    "text of lines": f"\n  {FRAME[:14].hex()}\n  {FRAME[14:].hex()}\n",
}
NOT_FRAMES = [5, [1, 2], (1, 2), None, 1.5, object(), "", "0g", "abc", "00 0", {"a": 1}, True]


@pytest.fixture(scope="module")
def l2() -> Iterator[Switch]:
    with Switch(PROGRAMS / "l2.json") as switch:
        switch.run("table_add hosts forward 00:00:00:00:00:0b => 2")
        yield switch


@pytest.mark.parametrize("pair", [tuple, list])
@pytest.mark.parametrize("expected", FORMS)
@pytest.mark.parametrize("sent", FORMS)
def test_all_forms_are_the_same_frame(l2: Switch, sent: str, expected: str, pair: Callable[..., Any]) -> None:
    l2.expect(1, FORMS[sent], pair([2, FORMS[expected]]))


@pytest.mark.parametrize("value", NOT_FRAMES, ids=[f"{at}" for at in range(len(NOT_FRAMES))])
def test_a_value_that_is_no_frame_is_refused_and_shown(l2: Switch, value: Any) -> None:
    for use in (lambda: l2.process(1, value), lambda: Mask(value), lambda: l2.expect(1, FRAME, (2, value))):
        with pytest.raises(SwitchError, match=r"^(frame|expected output)( |: )") as refused:
            use()
        assert repr(value)[:20] in str(refused.value) or str(value) in str(refused.value)


@pytest.mark.parametrize(
    "output", [2, FRAME, (2,), (2, FRAME, 3), ("2", FRAME), [(2, FRAME)], {2: FRAME}, (FRAME, 2)]
)
def test_an_invalid_expected_output_is_refused(l2: Switch, output: Any) -> None:
    with pytest.raises(SwitchError, match=mentions("output", "frame")):
        l2.expect(1, FRAME, output)


def test_digits_that_are_left_open_match_anything(l2: Switch) -> None:
    text = FRAME.hex()
    l2.expect(1, FRAME, (2, f"{text[:8]}****{text[12:]}"))
    l2.expect(1, FRAME, (2, f"0x*{FRAME.hex()[1:]}"))
    with pytest.raises(AssertionError, match=r"expected \*\*\*\*ff"):
        l2.expect(1, FRAME, (2, f"****ff{text[6:]}"))


@given(st.data(), st.binary(min_size=1, max_size=8))
def test_masks_ignore_the_bits_that_are_not_compared(data: st.DataObject, expected: bytes) -> None:
    """As integers: equal where the mask has ones."""
    size, ones = len(expected), (1 << 8 * len(expected)) - 1
    mask, cared = Mask(expected), ones
    for _ in range(data.draw(st.integers(0, 4))):
        offset = data.draw(st.integers(0, 8 * size))
        width = data.draw(st.integers(0, 8 * size - offset))
        bits = (ones >> offset) & ~(ones >> offset + width)
        if data.draw(st.booleans()):
            mask.set_do_not_care(offset, width)
            cared &= ~bits
        else:
            mask.set_care(offset, width)
            cared |= bits
    flipped = data.draw(st.integers(0, ones))
    frame = (int.from_bytes(expected, "big") ^ flipped).to_bytes(size, "big")
    assert mask.pkt_match(frame) == (flipped & cared == 0)
    assert not mask.pkt_match(frame[:-1]) and not mask.pkt_match(frame + b"x")
    mask.set_ignore_extra_bytes()
    assert mask.pkt_match(frame + b"x") == (flipped & cared == 0)
    assert not mask.pkt_match(frame[:-1])


@pytest.mark.parametrize(("offset", "width"), [(-1, 1), (0, 17), (16, 1), (0, -1), (100, 0)])
def test_bits_outside_the_frame_are_refused(offset: int, width: int) -> None:
    for change in (Mask(b"ab").set_do_not_care, Mask(b"ab").set_care):
        with pytest.raises(SwitchError, match=mentions(16, width, offset)):
            change(offset, width)


def test_a_mask_may_leave_all_bits_open() -> None:
    mask = Mask(PACKET, dont_care_all=True)
    assert mask.pkt_match(bytes(len(FRAME)))
    mask.set_care_packet(IP, "proto")
    assert not mask.pkt_match(bytes(len(FRAME)))
    mask.set_care_all()
    assert mask.pkt_match(FRAME)
    mask.set_do_not_care_all()
    assert mask.pkt_match(bytes(len(FRAME)))


PACKETS = [
    Ether() / IP() / TCP(options=[("MSS", 1460), ("NOP", None)]) / b"x",
    Ether() / Dot1Q(vlan=7) / IPv6() / UDP() / b"x",
    Ether() / IP(options=b"\x01\x01\x01\x00") / ICMP() / b"xyz",
    Ether() / ARP(),
]


@pytest.mark.parametrize("packet", PACKETS, ids=lambda packet: packet.summary()[:40])
def test_a_mask_finds_each_field_of_a_layer_at_its_place(packet: Any) -> None:
    """The fields of a layer fill its header, one after the other."""
    total, seen = 8 * len(packet), 0
    for layer in packet.layers():
        if layer.__name__ == "Raw":
            break
        start = total - 8 * len(packet[layer])
        for name in type(packet[layer])(bytes(packet[layer])).fields:
            mask = Mask(packet, dont_care_all=True)
            mask.set_care_packet(layer, name)
            cared = int.from_bytes(bytes(mask._cared), "big")
            width = cared.bit_count()
            assert cared == ((1 << width) - 1) << total - start - width, name
            start, seen = start + width, seen + 1
        assert start == total - 8 * len(packet[layer].payload)
    assert seen > 5


def test_a_mask_may_leave_a_field_of_a_header_open(l2: Switch) -> None:
    other = PACKET.copy()
    other[IP].ttl = 3
    del other[IP].chksum
    mask = Mask(other)
    mask.set_do_not_care_packet(IP, "ttl")
    assert not mask.pkt_match(FRAME)
    mask.set_do_not_care_packet(IP, "chksum")
    l2.expect(1, PACKET, (2, mask))
    for layer, name, packet in ((IP, "nothing", PACKET), (TCP, "flags", PACKET), (IP, "ttl", FRAME)):
        with pytest.raises(SwitchError, match=f"{layer.__name__}"):
            Mask(packet).set_do_not_care_packet(layer, name)


class OtherMask:
    """A mask of another package: all that counts is `pkt_match`."""

    def pkt_match(self, pkt: bytes) -> bool:
        return pkt.endswith(b"load")


def test_masks_of_ptf_are_taken(l2: Switch) -> None:
    l2.expect(1, FRAME, (2, OtherMask()))
    with pytest.raises(AssertionError, match="OtherMask"):
        l2.expect(1, FRAME[:-1], (2, OtherMask()))


OUTPUTS = st.lists(st.tuples(st.integers(1, 2), st.sampled_from([b"a", b"b", b"c"])), max_size=4)
PATTERNS = st.lists(st.tuples(st.integers(1, 2), st.sampled_from(["61", "62", "6*", "**"])), max_size=4)


@example([(1, b"a"), (1, b"b")], [(1, "**"), (1, "61")])  # the first output has to take the second pattern
@given(OUTPUTS, PATTERNS)
def test_outputs_are_alike_if_some_order_of_the_outputs_matches(
    outputs: list[tuple[int, bytes]], patterns: list[tuple[int, str]]
) -> None:
    expected = read_expected(patterns)
    orders = (
        all(
            port == p and pattern.pkt_match(frame)
            for (port, frame), (p, pattern) in zip(order, expected, strict=True)
        )
        for order in permutations(outputs)
        if len(order) == len(expected)
    )
    assert are_alike(outputs, expected) == any(orders)


def test_a_text_of_hexadecimal_digits_is_a_frame() -> None:
    assert to_bytes(FORMS["text with colons"]) == FRAME


def test_reports_have_no_codes_of_terminals(tmp_path: Path) -> None:
    (tmp_path / "test_l2.py").write_text(
        f"""
def test_fails(p4_switch):
    switch = p4_switch({str(PROGRAMS / "l2.json")!r})
    switch.process(1, {FRAME.hex()!r})
    assert "\\x1b" not in switch.explain()
    switch.expect(1, {FRAME.hex()!r}, (2, "00"))
"""
    )
    arguments = [
        "-p",
        "softswitch.testing.plugin",
        "-p",
        "no:cacheprovider",
        "--color=yes",
        "--junitxml=out.xml",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments, str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    report = (tmp_path / "out.xml").read_text()
    assert done.returncode == 1, done.stdout
    assert "expected 00 from port 2, got no frame" in report
    assert "table L2Ingress.hosts" in report
    assert "#x1B" not in report and "\x1b" not in report
