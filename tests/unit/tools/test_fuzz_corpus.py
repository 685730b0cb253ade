"""The fuzzer's corpus finds nothing, and the fuzzer finds planted bugs."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import pytest

from foundation.checkout import ROOT
from foundation.logs import libsvm_reader
from foundation.protocol import control, header
from tools.fuzz.loop import Fuzzer, shrink, within_limits
from tools.fuzz.target import CORPUS, Finding, Target, attempt
from tools.fuzz.targets import NAMES, target

pytestmark = pytest.mark.no_cover  # the fuzzer traces lines itself


@pytest.mark.parametrize("name", NAMES)
def test_the_corpus_finds_nothing(name: str) -> None:
    chosen = target(name)
    found = {file.name: attempt(chosen, file.read_bytes()) for file in sorted(chosen.corpus.iterdir())}
    wrong = {name: outcome for name, outcome in found.items() if isinstance(outcome, Finding)}
    wrong |= {repr(data): end for data in chosen.seeds() if isinstance(end := attempt(chosen, data), Finding)}
    assert found and not wrong


def test_every_folder_of_the_corpus_belongs_to_a_target_and_is_small() -> None:
    assert sorted(folder.name for folder in CORPUS.iterdir()) == sorted(NAMES)
    for folder in CORPUS.iterdir():
        files = list(folder.iterdir())
        assert len(files) < 100 and sum(file.stat().st_size for file in files) < 200_000


def plant(monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], right: str, wrong: str) -> None:
    """Replace part of a function's source in memory."""
    module = sys.modules[function.__module__]
    lines, first = inspect.getsourcelines(function)
    source = "".join(lines)
    assert source.count(right) == 1
    names = dict(vars(module))
    exec(compile("\n" * (first - 1) + source.replace(right, wrong), str(module.__file__), "exec"), names)
    monkeypatch.setattr(module, function.__name__, names[function.__name__])


@pytest.mark.parametrize(
    ("name", "function", "right", "wrong"),
    [
        ("libsvm", libsvm_reader._parse, "not math.isfinite(values[-1])", "values[-1] == math.inf"),
        ("rpc", header.first_fault, "h.served & ~h.live or ", ""),
        ("rpc", header.first_fault, " or h.dim & (h.dim - 1)", ""),
        ("control", control.parse, "if zero:", "if False:"),
    ],
)
def test_a_planted_bug_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, function: Callable[..., Any], right: str, wrong: str
) -> None:
    plant(monkeypatch, function, right, wrong)
    fuzzer = Fuzzer(target(name), seed=4)  # which leads to each within some thousand executions
    fuzzer.search(lambda: not fuzzer.findings and fuzzer.executions < 20_000)
    (finding,) = fuzzer.findings.values()
    small = shrink(fuzzer.target, finding)
    assert small.place == finding.place and len(small.data) <= len(finding.data)


def nested(data: bytes) -> None:
    """Fail for 9876, digit by digit."""
    if data[:1] != b"9":
        return
    if data[1:2] != b"8":
        return
    if data[2:3] != b"7":
        return
    if data[3:4] != b"6":
        return
    raise RuntimeError("found")


@pytest.mark.parametrize("name", NAMES)
def test_the_sources_that_guide_a_search_exist(name: str) -> None:
    """A search that is guided by none goes on, blindly."""
    assert [source for source in target(name).sources if not (ROOT / source).exists()] == []


def test_coverage_of_edges_finds_inputs_that_chance_does_not_find() -> None:
    """Chance does not find all four digits at once; edge by edge it does."""

    def executions(sources: tuple[str, ...]) -> tuple[int, list[str]]:
        fuzzer = Fuzzer(Target("nested", nested, sources, lambda: [b"1234"]), seed=1)
        may_continue = within_limits(None, 20_000, fuzzer)
        fuzzer.search(lambda: may_continue() and not fuzzer.findings)
        return fuzzer.executions, [str(finding.error) for finding in fuzzer.findings.values()]

    led = executions(("tests/unit/tools/test_fuzz_corpus.py",))
    assert led[1] == ["found"] and led == executions(("tests/unit/tools/test_fuzz_corpus.py",))
    assert executions(("src/foundation/protocol",)) == (20_000, [])
