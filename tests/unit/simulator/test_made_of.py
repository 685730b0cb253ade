"""What a point of a sweep is made of: design, settings, program, and the modules that simulate it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from foundation.designs.registry import DEFAULT, NAMES, design
from foundation.modules import ROOT, needed_by
from simulator.config import SimulationConfig
from simulator.sweeps import point
from simulator.sweeps.plan import changed
from simulator.sweeps.point import digest, made_of

SMALL = SimulationConfig(workers=4, servers=2, rounds=1, block_steps=1, trace_steps=4, top_k=20)
OURS = """
import json, sys
from simulator.sweeps.point import do_point
do_point(sys.argv[1])
files = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
print(json.dumps({name: file for name, file in files.items() if file.startswith(sys.argv[2])}))
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """All files of the project that are Python or the program, to be broken."""
    parts = [part for name in NAMES for part in design(name).modules]
    modules = needed_by([point.__name__, "hotline.cli.__main__", "tests.bench.__main__", *parts])
    for file in (*modules.values(), *(design(name).program for name in NAMES)):
        to = tmp_path / file.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, to)
    return tmp_path


def test_a_point_needs_what_it_imports_when_it_runs() -> None:
    """As a process of its own says that has simulated one."""
    command = [sys.executable, "-c", OURS, SMALL.model_dump_json(), f"{ROOT}/"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    imported = {
        name: Path(file)
        for name, file in json.loads(done.stdout.splitlines()[-1]).items()
        if ".venv" not in file
    }
    assert len(imported) > 100
    needed = needed_by([point.__name__, *design(DEFAULT).modules])
    # Of other designs there is what describes them, for the names of their arms.
    others = {design(name).module for name in NAMES if name != DEFAULT}
    assert {name: file for name, file in imported.items() if name not in others}.items() <= needed.items()


@pytest.mark.parametrize(
    "file",
    [
        "hosts/hotset/ps/rpc.py",
        "foundation/protocol/header.py",
        "simulator/switch.py",
        "simulator/hotset.py",
        "experiment/hotset.py",
        "simulator/sweeps/point.py",
        "p4src/compiled/hotset.json",
    ],
)
def test_what_has_changed_is_simulated_again(copy: Path, file: str) -> None:
    before = digest("hotset", copy)
    with (copy / file).open("a") as changed_file:
        changed_file.write(" ")
    digest.cache_clear()
    assert digest("hotset", copy) != before


@pytest.mark.parametrize(
    "file",
    ["src/hotline/cli/sweep.py", "simulator/sweeps/page.py", "docs/simulator.md", "hosts/new.py"],
)
def test_what_has_no_part_in_it_may_change(copy: Path, file: str) -> None:
    before = digest("hotset", copy)
    (copy / file).parent.mkdir(exist_ok=True)
    with (copy / file).open("a") as changed_file:
        changed_file.write(" ")
    digest.cache_clear()
    assert digest("hotset", copy) == before


def test_a_designs_own_modules_are_its_points(copy: Path) -> None:
    """And no other design's: they are imported by name."""
    before = {design: digest(design, copy) for design in NAMES}
    with (copy / "hosts" / "none" / "worker.py").open("a") as changed_file:
        changed_file.write("import tests.bench.errors")
    digest.cache_clear()
    assert digest("hotset", copy) == before["hotset"]
    of_none = digest("none", copy)
    (copy / "tests" / "bench" / "errors.py").write_text("")
    digest.cache_clear()
    assert before["none"] != of_none != digest("none", copy)


def test_settings_and_design_are_part_of_it() -> None:
    made = [made_of(SMALL), made_of(changed(SMALL, {"seed": 2})), made_of(SimulationConfig(design="none"))]
    assert len(set(made)) == 3 and made_of(changed(SMALL, {"runs": "elsewhere"})) == made[0]


def test_an_import_inside_a_function_and_of_a_package_counts(tmp_path: Path) -> None:
    for name, text in {
        "a/__init__.py": "",
        "a/b.py": "def f():\n    from a.c import d\n",
        "a/c/__init__.py": "import e",
        "a/c/d.py": "import os, nowhere",
        "e.py": "from a import b",
        "f.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    assert needed_by(["a.b"], tmp_path).keys() == {"a", "a.b", "a.c", "a.c.d", "e"}
