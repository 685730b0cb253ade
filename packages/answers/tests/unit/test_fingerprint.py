"""What a point of a sweep is made of: design, settings, program, and the modules that simulate it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from foundation.checkout import ROOT
from foundation.designs.registry import DEFAULT, NAMES, design, modules_of
from foundation.import_graph import digest_of, files_needed_by
from hotline_answers.sweeps import point
from hotline_answers.sweeps.plan import with_changes
from hotline_answers.sweeps.point import SweepPoint
from hotline_simulator.config import SimulationConfig
from hotline_simulator.study import digest_of_code, fingerprint

SMALL = SimulationConfig(workers=4, servers=2, rounds=1, block_steps=1, trace_steps=4, top_k=20)
OURS = """
import json, sys
from hotline_answers.sweeps.point import SweepPoint
SweepPoint.model_validate_json(sys.argv[1]).run()
files = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
print(json.dumps({name: file for name, file in files.items() if file.startswith(sys.argv[2])}))
"""


def point_of(config: SimulationConfig) -> SweepPoint:
    return SweepPoint(sweep="top_k", label="20", x=20, config=config)


def digest(name: str, root: Path = ROOT) -> str:
    return digest_of_code(point_of(SimulationConfig(design=name)), root)


@pytest.fixture(scope="module")
def files() -> list[Path]:
    """Return all files of the project that are Python or the program."""
    parts = [part for name in NAMES for part in modules_of(design(name))]
    modules = files_needed_by([point.__name__, "hotline.cli.__main__", "tools.bench.__main__", *parts])
    return [*modules.values(), *(design(name).program for name in NAMES)]


@pytest.fixture(scope="module")
def whole() -> dict[str, str]:
    """Return the digest of each design, with nothing broken."""
    return {name: digest(name) for name in NAMES}


@pytest.fixture
def copy(files: list[Path], tmp_path: Path) -> Path:
    for file in files:
        to = tmp_path / file.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, to)
    return tmp_path


@pytest.mark.soak
def test_the_fingerprint_of_a_point_covers_all_modules_that_a_simulation_imports() -> None:
    """A process that has simulated a point lists its modules."""
    command = [sys.executable, "-c", OURS, point_of(SMALL).model_dump_json(), f"{ROOT}/"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    files = json.loads(done.stdout.splitlines()[-1])
    imported = {name: Path(file) for name, file in files.items() if ".venv" not in file}
    assert len(imported) > 100
    needed = files_needed_by([point.__name__, *modules_of(design(DEFAULT))])
    # Of other designs there is what describes them, for the names of their arms.
    others = {design(name).module for name in NAMES if name != DEFAULT}
    assert {name: file for name, file in imported.items() if name not in others}.items() <= needed.items()


def soaked(*files: str) -> list[Any]:
    return [pytest.param(file, marks=pytest.mark.soak) for file in files]


@pytest.mark.parametrize(
    "file",
    [
        "packages/agents/src/hotline_agents/hotset/ps/rpc.py",
        "packages/simulator/src/hotline_simulator/hotset.py", "p4src/compiled/hotset.json",
        *soaked(
            "src/foundation/protocol/header.py", "packages/simulator/src/hotline_simulator/cabling.py",
            "src/experiment/hotset_arms.py", "packages/answers/src/hotline_answers/sweeps/point.py",
        ),
    ],
)  # fmt: skip
def test_a_change_of_a_file_that_a_point_uses_changes_its_fingerprint(
    copy: Path, whole: dict[str, str], file: str
) -> None:
    with (copy / file).open("a") as changed_file:
        changed_file.write(" ")
    assert digest("hotset", copy) != whole["hotset"]


@pytest.mark.parametrize(
    "file",
    [
        "packages/answers/src/hotline_answers/cli/sweep.py", "hosts/new.py",
        *soaked("packages/answers/src/hotline_answers/sweeps/page.py", "packages/simulator/README.md"),
    ],
)  # fmt: skip
def test_a_change_of_an_unrelated_file_changes_no_fingerprint(
    copy: Path, whole: dict[str, str], file: str
) -> None:
    (copy / file).parent.mkdir(exist_ok=True)
    with (copy / file).open("a") as changed_file:
        changed_file.write(" ")
    assert digest("hotset", copy) == whole["hotset"]


def test_a_designs_own_modules_are_its_points(copy: Path, whole: dict[str, str]) -> None:
    """Modules of other designs are imported by name, and are no part of it."""
    with (copy / "packages" / "agents" / "src" / "hotline_agents" / "none" / "worker.py").open(
        "a"
    ) as changed_file:
        changed_file.write("import tools.bench.requests")
    assert digest("hotset", copy) == whole["hotset"]
    of_none = digest("none", copy)
    (copy / "tools" / "bench" / "requests.py").write_text("")
    digest_of.cache_clear()
    assert whole["none"] != of_none != digest("none", copy)


def test_settings_and_design_are_part_of_the_fingerprint() -> None:
    configs = (SMALL, with_changes(SMALL, {"seed": 2}), SimulationConfig(design="none"))
    made = [fingerprint(point_of(config)) for config in configs]
    assert (
        len(set(made)) == 3 and fingerprint(point_of(with_changes(SMALL, {"runs": "elsewhere"}))) == made[0]
    )


def test_an_import_inside_a_function_and_of_a_package_counts(tmp_path: Path) -> None:
    files = {
        "a/__init__.py": "", "a/b.py": "def f():\n    from a.c import d\n", "a/c/__init__.py": "import e",
        "a/c/d.py": "import os, nowhere, g.h", "e.py": "from a import b", "f.py": "",
        "g/__init__.py": "", "g/h.py": "",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    assert files_needed_by(["a.b"], tmp_path).keys() == {"a", "a.b", "a.c", "a.c.d", "e", "g", "g.h"}
