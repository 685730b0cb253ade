"""What the switch cannot do is refused at load, with the construct and the line p4c recorded."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from softswitch.errors import ProgramError, UnsupportedConstruct
from softswitch.load import load_program
from tests.harness.match_kinds import MATCH_KINDS
from tests.harness.testnet import COMPILED

TEXT: dict[str, Any] = json.loads((COMPILED / "hotline.json").read_text())


def table(text: dict[str, Any], name: str) -> dict[str, Any]:
    return next(t for t in text["pipelines"][0]["tables"] if t["name"].endswith(name))


def primitive(text: dict[str, Any]) -> dict[str, Any]:
    return next(a for a in text["actions"] if a["name"].endswith("forward_to"))["primitives"][0]


CHANGES: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (
        lambda t: table(t, "identify.jobs")["key"][0].update(match_type="selector"),
        r"p4src/identify.p4:\d+: selector key `job` of table `HotlineIngress.identify.jobs` is not supported",
    ),
    (
        lambda t: table(t, "identify.jobs").update(type="indirect_ws"),
        r"p4src/identify.p4:\d+: table `HotlineIngress.identify.jobs` of type indirect_ws is not",
    ),
    (lambda t: table(t, "identify.jobs").update(support_timeout=True), "idle timeout of table"),
    (lambda t: table(t, "identify.jobs").update(direct_meters="m"), "direct meter of table"),
    (
        lambda t: primitive(t).update(op="clone_ingress_pkt_to_egress"),
        r"p4src/forward.p4:\d+: primitive `clone_ingress_pkt_to_egress` is not supported by softswitch",
    ),
    (lambda t: t["meter_arrays"].append({"name": "meter"}), "a meter \\(`meter`\\)"),
    (
        lambda t: t["calculations"][0].update(algo="crc32"),
        r"p4src/checksums.p4:\d+: checksum algorithm `crc32`",
    ),
    (
        lambda t: t["parsers"][0]["parse_states"][0]["parser_ops"].append(
            {"op": "advance", "parameters": [{"type": "hexstr", "value": "0x8"}]}
        ),
        r"parser state start: parser operation `advance` \(hexstr\)",
    ),
    (lambda t: t["header_types"][3]["fields"].append(["options", "*"]), "varbit field `.*options`"),
    (lambda t: t["header_types"][3]["fields"].append(["x", 8, True]), "int<> field `.*x`"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_unsupported_constructs_are_refused_by_name(change: Callable[[Any], object], message: str) -> None:
    text = copy.deepcopy(TEXT)
    change(text)
    with pytest.raises(UnsupportedConstruct, match=message):
        load_program(json.dumps(text))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff", "is not JSON"),
        (b"[]", "not a BMv2 program"),
        (b"{}", "not a BMv2 program"),
        (json.dumps({**TEXT, "parsers": []}).encode(), "not a BMv2 program as p4c prints it"),
    ],
)
def test_what_is_no_program_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        load_program(data)


@pytest.mark.parametrize("compiled", [COMPILED, MATCH_KINDS.parent])
def test_the_artefacts_are_of_these_sources(compiled: Path) -> None:
    """`make p4` writes the digest; it fails here when sources have changed and the artefacts have not."""
    recorded = dict(
        reversed(line.split(maxsplit=1)) for line in (compiled / "sources.sha256").read_text().splitlines()
    )
    sources = {
        f"./{p.name}": hashlib.sha256(p.read_bytes()).hexdigest() for p in compiled.parent.glob("*.p4")
    }
    assert sources == recorded
