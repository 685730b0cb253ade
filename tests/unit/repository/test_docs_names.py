"""Names in backticks exist: identifiers, options and files, also in the file that a page gives a name.

An identifier is a word of letters, digits and underscores, alone, with dots, or with an argument list. It
exists if a source or the path of one has it; the parts of a dotted one stand in one file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from foundation.checkout import ROOT
from tests.harness.page_commands import code_in_sentences
from tests.unit.repository.test_docs import OLD, PAGES

SUFFIXES = {
    "",
    ".css",
    ".in",
    ".ipynb",
    ".j2",
    ".js",
    ".lock",
    ".p4",
    ".py",
    ".sh",
    ".toml",
    ".txt",
    ".txtpb",
}
FOLDERS = (
    "controller", "examples", "hosts", "p4src", "packages", "src", "tests", "tools", "topologies",
)  # fmt: skip
CACHES = {"__pycache__", ".mypy_cache", ".ruff_cache"}
IDENTIFIER = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\(.*\))?")
OPTION = re.compile(r"--[a-z][\w-]*")
FILE = re.compile(r"(?:[\w.-]+/)*[\w-]+\.(?:p4|py)")
WORD = re.compile(r"[A-Za-z_]\w*")
NAMES_IN_FILES = (
    re.compile(r"`(?P<name>\w+)`,? (?:in|of|from) `(?P<file>[\w./-]+\.(?:p4|py|toml))`"),
    re.compile(r"`(?P<name>\w+)` \(`(?P<file>[\w./-]+\.(?:p4|py|toml))`\)"),
    re.compile(r"`(?P<file>[\w./-]+\.(?:p4|py|toml))` has `(?P<name>\w+)`"),
)
PLACEHOLDER = re.compile(r"(\b|_)(NAME|TARGET|NN)(\b|_)|\bmine\b")
WRITTEN_BY_THE_READER = {"isolated.toml", "train.py"}
FOREIGN: dict[str, set[str]] = {
    "docs/logs.md": {"retail2.dat"},  # of a data set
    "packages/dense/README.md": {"bucket_cap_mb"},  # of PyTorch
    "packages/machines/README.md": {"securityContext"},  # of Kubernetes
    "packages/tofino/README.md": {"--no-clot"},  # of p4c
    "packages/softswitch/docs/commands.md": {  # of P4's tutorials, and of BMv2
        "MyIngress.ipv4_lpm", "runtime_CLI.py", "sswitch_CLI.py",
    },
    "packages/softswitch/docs/tutorial-checks.md": {  # of P4's tutorials
        "byte_cnt", "cur_time", "last_time", "mycontroller.py", "optionLength", "send.py", "totalLen",
    },
    "packages/softswitch/docs/compiler.md": {  # samples of p4c, tests of p4-guide
        "duplicatekeys", "gauntlet_indirect_hdr_assign_1", "gauntlet_nested_switch",
        "gauntlet_short_circuit", "gauntlet_side_effect_order_1", "gauntlet_side_effect_order_5",
        "gauntlet_side_effects_in_mux", "gauntlet_uninitialized_bool_struct", "issue1127", "issue1167",
        "issue1672", "issue2283_1", "issue2289", "issue2735", "issue3299", "issue3374", "issue4739",
        "issue692", "lpmtester", "named_meter_1", "named_meter_bmv2", "proliferation1",
    },
    "packages/softswitch/docs/conformance.md": {  # tests and programs of other projects
        "P4RUNTIME_COMPLIANCE.md",
        "SendAndReceiveCPUPacket", "ServerDetectsBadTableEntryOptionsTest", "backends/bmv2/bmv2stf.py",
        "duplicatekeys", "fabric_border_router", "gnmi", "issue1043", "issue1517", "issue2283_1",
        "lpmwidth20bits", "middleblock", "ngsdn", "pins_fabric",
    },
    "packages/softswitch/docs/kernel.md": {  # of Linux, and of p4c
        "CONFIG_IRQ_TIME_ACCOUNTING", "switch_p4_16",
    },
    "packages/softswitch/docs/packets-vanish.md": {"InCsumErrors"},  # of Linux
}  # fmt: skip
"""Names that pages take from other projects."""

SHOWN = sorted(set(PAGES) - set(OLD))


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def sources() -> dict[str, str]:
    """Return the text of each source, by its path; but of this one, which has names that do not exist."""
    files = chain(ROOT.glob("*"), *((ROOT / folder).rglob("*") for folder in FOLDERS))
    return {
        name_of(file): file.read_text(errors="ignore")
        for file in files
        if file.suffix in SUFFIXES and file.is_file() and not CACHES & {*file.parts}
        if file != Path(__file__) and file.name != ".git"
    }


@cache
def words() -> dict[str, set[str]]:
    return {file: {*WORD.findall(text), *WORD.findall(file)} for file, text in sources().items()}


@cache
def all_words() -> set[str]:
    return set().union(*words().values())


@cache
def all_options() -> set[str]:
    return set().union(*(OPTION.findall(text) for text in sources().values()))


def files_named(name: str) -> list[str]:
    """Return the sources whose path ends as a page names them."""
    return [file for file in sources() if f"/{file}".endswith(f"/{name}")]


@cache
def exists(code: str) -> bool:
    """Return whether a name of a page exists; code of another grammar does."""
    if FILE.fullmatch(code):
        return bool(files_named(code))
    if OPTION.fullmatch(code):
        return code in all_options() or code[2:].replace("-", "_") in all_words()
    if match := IDENTIFIER.fullmatch(code):
        parts = set(match[1].split("."))
        return parts <= all_words() and (len(parts) == 1 or any(parts <= each for each in words().values()))
    return True


def unknown_names(page: Path) -> Iterator[str]:
    for code in code_in_sentences(page):
        is_ours = code not in WRITTEN_BY_THE_READER and not PLACEHOLDER.search(code)
        if is_ours and not exists(code):
            yield code


@pytest.mark.parametrize("page", SHOWN, ids=name_of)
def test_every_name_in_backticks_exists(page: Path) -> None:
    """What a page takes from another project is listed, and nothing else is."""
    assert set(unknown_names(page)) == FOREIGN.get(name_of(page), set())


def test_names_are_in_the_files_that_pages_name() -> None:
    found, missing = 0, set()
    for page in SHOWN:
        text = " ".join(page.read_text().split())
        for match in chain.from_iterable(pattern.finditer(text) for pattern in NAMES_IN_FILES):
            name, file = match["name"], match["file"]
            found += 1
            if not any(re.search(rf"\b{name}\b", sources()[each]) for each in files_named(file)):
                missing.add((name_of(page), name, file))
    assert found > 15 and missing == set()


@pytest.mark.parametrize(
    "code",
    [
        "open_nowhere",
        "Worker.levitate",
        "Worker.levitate(keys)",
        "--no-hot-potato",
        "hosts/levitate.py",
        "Worker.examine_json",
    ],
)
def test_a_name_that_no_source_has_is_found(code: str) -> None:
    assert not exists(code)
