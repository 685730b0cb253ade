"""The ten mistakes of docs/packets-vanish.md: each is made, and the tool prints what the page shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw

from softswitch.testing import Switch
from switch_harness import PROGRAMS

PAGE = Path(__file__).parents[3] / "docs" / "packets-vanish.md"
PROGRAM = PROGRAMS.parent / "l3.p4"
HEADING = re.compile(r"### (\d+)\. (.+)\n")
ELISION = "..."
SENDER, ROUTER = "00:00:00:00:01:01", "00:00:00:00:00:01"
ETHERNET = Ether(src=SENDER, dst=ROUTER)
PORT = 1  # of the sender
FULL_FRAME_BYTES = 1514  # of an MTU of 1500 bytes


def datagram(destination: str = "10.0.1.2", ttl: int = 64) -> Packet:
    return ETHERNET / IP(src="10.0.0.1", dst=destination, ttl=ttl) / UDP(sport=1000, dport=2000)


def full_frame() -> Packet:
    return datagram() / Raw(bytes(FULL_FRAME_BYTES - len(datagram())))


def unfinished() -> Packet:
    """Return a datagram whose checksum is that of the pseudo header, as the sender's kernel leaves it."""
    source, destination, protocol, length = (10 << 24) + 1, (10 << 24) + (1 << 8) + 2, 17, 8
    words = [source >> 16, source & 0xFFFF, destination >> 16, destination & 0xFFFF, protocol, length]
    total = sum(words)
    return ETHERNET / IP(src="10.0.0.1", dst="10.0.1.2") / UDP(sport=1000, dport=2000, chksum=total)


FRAMES = {
    5: datagram("10.0.9.9"),
    6: datagram(ttl=0),
    7: full_frame(),
    8: Ether(src=SENDER, dst="ff:ff:ff:ff:ff:ff") / ARP(psrc="10.0.0.1", pdst="10.0.1.2"),
    9: unfinished(),
}
"""Frame of each mistake whose text says so; the others have a datagram to 10.0.1.2."""
ROUTED_TWICE = {2}
"""Mistakes that the next router sees, which gets the frame that the switch sends."""


class Mistake(NamedTuple):
    number: int
    title: str
    change: list[str]  # lines of the program, after ` `, `-` or `+`, or a command
    output: list[str]


def section() -> str:
    return PAGE.read_text().partition("## Ten mistakes")[2].partition("\n## ")[0]


def entry() -> str:
    found = re.search(r"^    (table_add .*)$", section().partition("###")[0], re.MULTILINE)
    assert found is not None
    return found[1]


def mistakes() -> Iterator[Mistake]:
    headings = list(HEADING.finditer(section()))
    ends = [heading.start() for heading in headings[1:]] + [None]
    for heading, end in zip(headings, ends, strict=True):
        text = section()[heading.end() : end]
        blocks = [block.splitlines() for block in re.findall(r"(?:^    .*\n)+", text, re.MULTILINE)]
        lines = [[line[4:] for line in block] for block in blocks]
        change = [line for block in lines[:-1] for line in block]
        yield Mistake(int(heading[1]), heading[2], change, lines[-1])


def patched(program: str, change: list[str]) -> str:
    """Return a program with the change: parts of a diff, between lines of an ellipsis."""
    for part in "\n".join(change).split(f"\n{ELISION}\n"):
        lines = part.splitlines()
        old = "\n".join(line[1:] for line in lines if line[:1] in (" ", "-"))
        new = "\n".join(line[1:] for line in lines if line[:1] in (" ", "+"))
        assert program.count(old) == 1, f"expected once in {PROGRAM.name}: {old}"
        program = program.replace(old, new)
    return program


def explain(mistake: Mistake, folder: Path) -> list[str]:
    """Make a mistake, and return what is printed about its frame."""
    commands = [line for line in mistake.change if line.startswith("table_add")]
    change = [line for line in mistake.change if line not in commands]
    program = folder / "l3.p4"
    program.write_text(patched(PROGRAM.read_text(), change) if change else PROGRAM.read_text())
    frame = FRAMES.get(mistake.number, datagram())
    with Switch(program) as switch:
        switch.run(*(commands or [entry()]))
        sent = switch.process(PORT, frame)
        if mistake.number in ROUTED_TWICE:
            switch.process(PORT, sent[0][1])
        return switch.explain().splitlines()


def test_the_page_has_ten_mistakes() -> None:
    assert [each.number for each in mistakes()] == list(range(1, 11))


@pytest.mark.parametrize("mistake", list(mistakes()), ids=lambda mistake: mistake.title)
def test_the_page_shows_the_printed_lines_about_a_mistake(mistake: Mistake, tmp_path: Path) -> None:
    printed = iter(explain(mistake, tmp_path))
    missing = [line for line in mistake.output if line != ELISION and line not in printed]
    assert not missing, "not printed in this order"


def test_the_program_without_a_mistake_routes_the_datagram(tmp_path: Path) -> None:
    right = Mistake(0, "", [], [])
    assert any(line.startswith("└─ sent to port 2") for line in explain(right, tmp_path))
