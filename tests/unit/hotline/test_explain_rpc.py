"""`hotline explain` describes what the program does with an RPC."""

from __future__ import annotations

import json
import re
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from foundation.protocol import addressing, codec, frames
from foundation.protocol.hashing import lane_of
from foundation.protocol.header import RESPONSE, Op
from hotline_simulator.explain import FIRST_VALUE, HOSTS, SLOT, WORKER, explain_rpc, keys_of_lanes
from tests.harness.cli import invoke

LINES = "HotlineIngress.bank_{:02d}.values_a"
PENDING = "HotlineIngress.bank_{:02d}.pending_a"


def run(*arguments: str) -> Any:
    return invoke("explain", *arguments)


def events(*arguments: str) -> list[dict[str, Any]]:
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.output.splitlines()]


def written(found: list[dict[str, Any]]) -> dict[str, str]:
    """Return the lanes' registers that were written, with their new values."""
    ours = (
        e
        for e in found
        if e["kind"] == "register" and e["op"] == "write" and e["name"].endswith(("values_a", "pending_a"))
    )
    return {e["name"]: e["after"] for e in ours if e["index"] == SLOT}


def test_keys_are_in_their_lanes() -> None:
    assert [lane_of(key) for key in keys_of_lanes(32)] == [*range(32)]


def test_a_push_that_hits_is_added_and_answered() -> None:
    found = events("push", "--keys", "3")
    assert written(found) == {LINES.format(lane): hex(FIRST_VALUE + lane) for lane in range(3)}
    (sent,) = (e for e in found if e["kind"] == "send")
    assert sent["port"] == HOSTS.worker_port(WORKER)
    answer = frames.parse(bytes.fromhex(sent["data"]))
    assert answer.destination.address == addressing.worker(WORKER).address
    header = codec.parse(answer.payload).header
    assert (header.op, header.flags & RESPONSE, header.served) == (Op.PUSH, RESPONSE, 0b111)


def test_an_explained_pull_reads_the_values_of_a_push() -> None:
    found = events("pull", "--keys", "2")
    assert written(found) == {}
    (sent,) = (e for e in found if e["kind"] == "send")
    answer = codec.parse(frames.parse(bytes.fromhex(sent["data"])).payload)
    assert answer.values is not None and answer.values.tolist() == [FIRST_VALUE, FIRST_VALUE + 1]


def test_an_rpc_with_a_cold_key_goes_on_to_its_server() -> None:
    found = events("push", "--keys", "4", "--cold", "1")
    assert set(written(found)) == {LINES.format(lane) for lane in range(3)}
    (sent,) = (e for e in found if e["kind"] == "send")
    assert sent["port"] == HOSTS.server_port(1)
    assert codec.parse(frames.parse(bytes.fromhex(sent["data"])).payload).header.served == 0b111
    (missed,) = (e for e in found if e["kind"] == "table" and e["table"].endswith("03.hot_params"))
    assert missed["hit"] is False


@pytest.mark.parametrize(
    ("place", "cold", "passed"),
    [
        ("spine", 0, ["leaf 2", "spine", "leaf 2"]),
        ("spine", 1, ["leaf 2", "spine", "leaf 1"]),
        ("leaves", 0, ["leaf 2", "spine", "leaf 1", "spine", "leaf 2"]),
        ("leaves", 1, ["leaf 2", "spine", "leaf 1"]),
        ("worker-leaves", 0, ["leaf 2"]),
        ("worker-leaves", 1, ["leaf 2", "spine", "leaf 1"]),
    ],
)
def test_each_switch_on_the_way_of_an_rpc_is_named(place: str, cold: int, passed: list[str]) -> None:
    """Only the home adds, and answers a push whose keys are all hot; others pass it on unchanged."""
    options = ("push", "--keys", "2", "--cold", str(cold), "--hot-sets", place)
    found = events(*options)
    assert [name for name, _ in groupby(event["switch"] for event in found)] == passed
    home = {"spine": "spine", "leaves": "leaf 1", "worker-leaves": "leaf 2"}[place]
    cells = PENDING if place == "worker-leaves" else LINES
    for name in set(passed):
        here = written([event for event in found if event["switch"] == name])
        assert here == (
            {cells.format(lane): hex(100 + lane) for lane in range(2 - cold)} if name == home else {}
        )
    last = [event for event in found if event["kind"] == "send"][-1]
    assert last["port"] == (HOSTS.server_port(1) if cold else HOSTS.worker_port(2))
    lines = run(*options).output.splitlines()
    assert [line for line in lines if line in passed] == passed


def test_a_pull_at_a_workers_leaf_reads_the_copy_and_not_the_sum() -> None:
    found = events("pull", "--keys", "2", "--hot-sets", "worker-leaves")
    last = [event for event in found if event["kind"] == "send"][-1]
    answer = codec.parse(frames.parse(bytes.fromhex(last["data"])).payload)
    assert answer.values is not None and answer.values.tolist() == [0, 0]
    assert {event["switch"] for event in found} == {"leaf 2"}


def test_an_explained_pull_of_a_network_reads_the_values_of_a_push() -> None:
    found = events("pull", "--keys", "2", "--hot-sets", "leaves")
    last = [event for event in found if event["kind"] == "send"][-1]
    answer = codec.parse(frames.parse(bytes.fromhex(last["data"])).payload)
    assert answer.values is not None and answer.values.tolist() == [FIRST_VALUE, FIRST_VALUE + 1]


def test_the_picture_of_the_page_equals_the_drawn_picture(tmp_path: Path) -> None:
    picture = tmp_path / "push.svg"
    assert run("push", "--keys", "1", "--svg", str(picture)).exit_code == 0
    shown = Path(__file__).parents[3] / "docs" / "explain-push.svg"
    assert text_of(picture) == text_of(shown)
    assert "http" not in picture.read_text().replace("http://www.w3.org/2000/svg", "").partition("<style>")[2]


def text_of(picture: Path) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", picture.read_text())


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["sync"], 2, "'push'"),
        (["push", "--keys", "33"], 2, "33"),
        (["push", "--keys", "2", "--cold", "3"], 2, "number of keys, 2, got 3"),
        (["push", "--filter", "tabel=x"], 1, "'tabel=x'"),
        (["push", "--filter", "table=nope"], 1, "'nope'"),
        (["push", "--svg", "/nowhere/push.svg"], 1, "/nowhere/push.svg: cannot be written: No such file"),
    ],
)
def test_wrong_arguments_of_explain_are_refused(arguments: list[str], code: int, part: str) -> None:
    done = run(*arguments)
    assert done.exit_code == code and part in done.output


def test_filters_choose_kinds_of_events() -> None:
    assert {e["kind"] for e in events("push", "--filter", "kind=extract,send")} == {"extract", "send"}
    assert {e.KIND for e in explain_rpc(Op.PUSH, 1)} > {"register", "table", "checksum"}
