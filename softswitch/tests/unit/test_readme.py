"""The example of the README reads a register, as a PTF test does."""

from __future__ import annotations

import re
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from finsy.proto import p4r

from softswitch.p4runtime.messages import adopt
from switch_harness import PROGRAMS
from switch_harness.p4runtime import config, controlled, identity_in

README = Path(__file__).parents[2] / "README.md"
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
