"""`softswitch explain` as a user calls it: what it prints, and what it refuses in which words."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import pytest

from softswitch import explaining
from softswitch.explain.frames import TimedFrame, read_pcap
from switch_harness import PROGRAMS

ROOT = Path(__file__).parents[3]
PROGRAM = str(PROGRAMS / "control.json")
FRAME = bytes.fromhex("00000000000b 00000000000a 0800") + bytes(4)
ADD = "table_add forward forward_to 00:00:00:00:00:0b => 2"
Captured = pytest.CaptureFixture[str]


def run(*arguments: str) -> str | int | None:
    """What the process would exit with."""
    with pytest.raises(SystemExit) as ended:
        explaining.main(list(arguments))
    return ended.value.code


@pytest.fixture
def commands(tmp_path: Path) -> str:
    file = tmp_path / "commands.txt"
    file.write_text(f"# one route\n\n{ADD}\n")
    return str(file)


def record(seconds: int, us: int, data: bytes, whole: int | None = None) -> bytes:
    return struct.pack("<4I", seconds, us, len(data), whole or len(data)) + data


HEAD = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)


def test_the_page_shows_the_printed_trace(
    commands: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Terminal codes are left out if stdout is no terminal."""
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "explain.md").read_text()
    shown = "\n".join(re.findall(r"^    ([├│└ p].*)$", page.partition("it prints:")[2], re.MULTILINE))
    hexadecimal = re.search(r'control\.p4 .*--packet "([^"]+)"', page)
    assert hexadecimal is not None and f"`{ADD}`" in page
    program = "tests/programs/control.p4"
    assert run(program, "--commands", commands, "--packet", hexadecimal[1]) == 0
    printed = capsys.readouterr().out
    assert printed and shown.startswith(printed.rstrip("\n"))


def test_json_is_a_line_for_each_event(commands: str, capsys: Captured) -> None:
    assert run(PROGRAM, "--commands", commands, "--packet", FRAME.hex(), "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (lines[0]["kind"], lines[-1]["kind"]) == ("begin", "send")
    assert (lines[-1]["port"], lines[-1]["data"]) == (2, FRAME.hex())


def test_packets_read_the_registers_that_earlier_packets_wrote(capsys: Captured) -> None:
    packets = ["--packet", FRAME.hex()] * 2
    assert run(PROGRAM, *packets, "--json", "--filter", "extern=cells", "--filter", "kind=register") == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(e["packet"], e["op"], e["after"]) for e in found] == [
        (1, "read", "0x0"),
        (1, "write", "0x1"),
        (2, "read", "0x1"),
        (2, "write", "0x2"),
    ]


@pytest.mark.parametrize(
    ("filters", "kinds"),
    [
        (["kind=drop"], ["drop"]),
        (["kind=dr*,table"], ["table"] * 5 + ["drop"]),
        (["table=forward"], ["table", "assign"]),
        (["table=ControlIngress.forward", "field=egress_spec"], ["assign"]),
        (["action=drop", "kind=table"], ["table"]),
        (["parser=parse_ethernet"], ["state", "extract", "select"]),
        (["field=ethernet.src_addr"], ["extract"]),
        (["header=ethernet"], ["extract"]),
        (["extern=drops"], ["counter"]),
        (["port=7"], ["begin"]),
        (["packet=2"], []),
        (["part=ingress", "kind=enter"], ["enter"]),
    ],
)
def test_filters_choose_events_by_kind_table_and_field(
    filters: list[str], kinds: list[str], capsys: Captured
) -> None:
    """The frame is dropped: the program's tables are empty."""
    options = [option for each in filters for option in ("--filter", each)]
    assert run(PROGRAM, "--port", "7", "--packet", FRAME.hex(), "--json", *options) == 0
    assert [json.loads(line)["kind"] for line in capsys.readouterr().out.splitlines()] == kinds


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--packet", "0800f"], ["'0800f'", "5 hexadecimal digits", "two a byte"]),
        (["--packet", ""], ["''", "two a byte"]),
        (["--packet", "08 0g"], ["08 0g", "'g' is digit 4"]),
        (["--packet", "00" * 65_536], ["65536 bytes", "65535"]),
        (["--packet", "00", "--filter", "tabel=x"], ["'tabel=x'", "NAME=PATTERN", "table"]),
        (["--packet", "00", "--filter", "table"], ["'table'", "NAME=PATTERN"]),
        (["--packet", "00", "--filter", "port=x"], ["'port=x'", "port=1"]),
        (["--packet", "00", "--filter", "table=forwrd"], ["'forwrd'", "ControlIngress.forward"]),
        (["--packet", "00", "--commands", "nowhere.txt"], ["nowhere.txt", "No such file"]),
        (["--pcap", "nowhere.pcap"], ["nowhere.pcap", "No such file"]),
        (["--pcap", PROGRAM], ["control.json", "7b226865", "pcap is expected"]),
    ],
)
def test_errors_of_explain_are_one_line(arguments: list[str], parts: list[str], capsys: Captured) -> None:
    error = run(PROGRAM, *arguments)
    assert isinstance(error, str) and error.startswith("softswitch: error: ") and "\n" not in error
    assert [part for part in parts if part not in error] == []
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("text", "part"), [("{", "not JSON"), ("{}", "`header_types`"), ("\x80", "not JSON")]
)
def test_an_invalid_program_is_refused(text: str, part: str, tmp_path: Path) -> None:
    file = tmp_path / "program.json"
    file.write_bytes(text.encode("latin-1"))
    error = run(str(file), "--packet", "00")
    assert isinstance(error, str) and str(file) in error and part in error


@pytest.mark.parametrize(
    "arguments",
    [
        ["--packet", "00"],
        [PROGRAM],
        [PROGRAM, "--packet", "00", "--pcap", "in.pcap"],
        [PROGRAM, "--packet", "00", "--port", "512"],
    ],
)
def test_usage_errors_exit_with_status_2(arguments: list[str]) -> None:
    assert run(*arguments) == 2


# -- captures


def test_a_capture_has_times_since_its_first_frame(tmp_path: Path) -> None:
    file = tmp_path / "in.pcap"
    frames = [TimedFrame(0, b"one"), TimedFrame(1_500_000, b"three")]
    file.write_bytes(HEAD + record(7, 600_000, b"one") + record(9, 100_000, b"three"))
    assert [frame for frame, _ in read_pcap(file)] == frames
    assert [position for _, position in read_pcap(file)][-1] == file.stat().st_size
    nanoseconds = struct.pack(">IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)
    swapped = [struct.pack(">4I", s, ns, 1, 1) + b"x" for s, ns in ((1, 999), (1, 5_000))]
    file.write_bytes(nanoseconds + b"".join(swapped))
    assert [frame.time for frame, _ in read_pcap(file)] == [0, 5]


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"", ["is empty"]),
        (HEAD[:7], ["7 bytes"]),
        (bytes.fromhex("0a0d0d0a") + bytes(40), ["pcapng", "editcap"]),
        (HEAD[:20] + struct.pack("<I", 113), ["link type 113", "Ethernet"]),
        (HEAD + record(0, 0, FRAME) + record(0, 0, FRAME)[:9], ["frame 2", "header", "cut off"]),
        (HEAD + record(0, 0, FRAME)[:-1], ["frame 1", "17 of its 18 bytes", "cut off"]),
        (HEAD + record(0, 0, FRAME, 1500), ["frame 1", "18 of its 1500", "-s 0"]),
        (HEAD + struct.pack("<4I", 0, 0, 1 << 20, 1 << 20), ["frame 1", "1048576", "65535"]),
    ],
)
def test_an_invalid_or_truncated_capture_is_one_error(
    content: bytes, parts: list[str], tmp_path: Path
) -> None:
    """What came before is explained."""
    file = tmp_path / "in.pcap"
    file.write_bytes(content)
    error = run(PROGRAM, "--pcap", str(file), "--json")
    assert isinstance(error, str) and f"{file}: " in error
    assert [part for part in parts if part not in error] == []


def test_ctrl_c_ends_explain_with_the_number_of_explained_packets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    file = tmp_path / "in.pcap"
    file.write_bytes(HEAD + record(0, 0, FRAME) * 3)
    shown = []

    def show(*arguments: object) -> None:
        shown.append(arguments)
        if len(shown) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(explaining, "show", show)
    assert run(PROGRAM, "--pcap", str(file)) == explaining.INTERRUPTED
    assert "1 packet" in capsys.readouterr().err


# -- trees


def test_a_tree_leaves_out_statements_without_effect_unless_requested(capsys: Captured) -> None:
    printed = []
    for more in ([], ["--all"]):
        assert run(PROGRAM, "--packet", FRAME.hex(), *more) == 0
        printed.append(capsys.readouterr().out)
    short, whole = printed
    assert "table ControlIngress.pairs" not in short and "ControlIngress.pairs" in short
    assert "table ControlIngress.pairs [src_addr" in whole
    assert "dropped: egress_spec is 511" in short
    assert len(whole.splitlines()) > len(short.splitlines())
