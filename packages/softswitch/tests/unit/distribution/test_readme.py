"""The README's examples forward a frame and read a register; a page explains each counter of lost frames."""

from __future__ import annotations

import re
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from finsy.proto import p4r

from softswitch.p4runtime.messages import adopt
from softswitch.ports.report import PortCounters, SwitchCounters
from switch_harness import PROGRAMS
from switch_harness.p4runtime import config, controlled, identity_in

PROJECT = Path(__file__).parents[3]
README = PROJECT / "README.md"
REGISTERS = PROGRAMS / "registers"
WRITE_ALL, INDEX, VALUE = 1, 2, 5


def probe() -> bytes:
    """A frame that makes the program write `VALUE` to cell `INDEX` of `narrow`."""
    program = controlled(REGISTERS).pipeline.program
    (header,) = [each for each in program.headers if each.name == "probe"]
    given = {"op": WRITE_ALL, "index": INDEX, "narrow": VALUE}
    number = 0
    for field in header.fields:
        number = number << field.width | given.get(field.name, 0)
    return number.to_bytes(sum(field.width for field in header.fields) // 8, "big")


def test_a_pipeline_is_a_function_of_a_packet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT)
    (example,) = re.findall(r"```python\n(from pathlib.*?)```", README.read_text(), re.S)
    assert "assert pipeline.process(" in example
    exec(example, {})


def test_a_ptf_test_reads_a_register() -> None:
    control = controlled(REGISTERS)

    def send_packet(_test: Any, port: int, frame: bytes) -> None:
        control.pipeline.process(port, frame, 0, 0)

    def read(request: p4r.ReadRequest) -> list[p4r.ReadResponse]:
        responses, results = control.read(adopt(request))
        assert not any(results)
        return list(responses)

    names = {
        "BaseTest": type("BaseTest", (unittest.TestCase,), {"stub": SimpleNamespace(Read=read)}),
        "testutils": SimpleNamespace(send_packet=send_packet),
        "p4runtime_pb2": p4r,
        "DEVICE_ID": 1,
        "REGISTER_ID": identity_in(config(program=REGISTERS).p4info, "narrow"),
        "PROBE": probe(),
    }
    (example,) = re.findall(r"```python\n(def read_register.*?)```", README.read_text(), re.S)
    exec(example, names)
    test: Any = names["ProbeIsStored"]
    result = unittest.TestResult()
    test("runTest").run(result)
    assert (result.testsRun, result.errors, result.failures) == (1, [], [])


def test_a_page_explains_each_counter_of_lost_frames() -> None:
    """By the words that the switch prints; what is duplicated or reordered is not lost."""
    page = (PROJECT / "docs" / "packets-vanish.md").read_text()
    counters = PortCounters(
        "s1", rx=0, tx=0, rx_dropped=7, tx_dropped=7, rx_oversize=7, tx_oversize=7, lost=7,
        duplicated=0, reordered=0, queue_dropped=7,
    )  # fmt: skip
    port_line, missing_port_line = SwitchCounters({1: counters}, no_such_port=7, lost_notices=0).describe()
    words = re.findall(r", ([^,(]+?)(?: \([^)]*\))? 7", port_line)
    words.append(missing_port_line.removesuffix(": 7"))
    assert len(words) == 7
    assert [text for text in words if f"| `{text}` |" not in page] == []
