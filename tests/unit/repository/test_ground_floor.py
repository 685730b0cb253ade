"""What a run on BMv2 with agents of Scapy needs is imported, and computes the same, without numba."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from experiment.run_config import Config
from foundation.checkout import ROOT, environment_with_checkout
from switch_harness.wording import says_in_one_line
from tests.harness.ground_floor import make_ground_floor
from tests.harness.ground_floor_probe import computed

TABLES = "iteration,table,key\n" + "".join(
    f"{i // 7},{'users' if i % 3 else 'items'},{i * i % 101}\n" for i in range(700)
)
UNORDERED = "timestamp,key,op\n" + "".join(
    f"{(i * 37) % 500},{i * 7919 % 211},{'read' if i % 2 else 'update'}\n" for i in range(2_000)
)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the packages of the ground floor."""
    return make_ground_floor(tmp_path_factory.mktemp("ground-floor") / "environment")


def run(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-m", *arguments], capture_output=True, text=True, cwd=ROOT, env=environment_with_checkout()
    )


def probe(python: Path, log: Path) -> dict[str, Any]:
    done = run(python, "tests.harness.ground_floor_probe", str(log))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("text", [TABLES, UNORDERED], ids=["tables", "unordered"])
def test_the_ground_floor_without_numba_equals_compiled_code(python: Path, tmp_path: Path, text: str) -> None:
    log = tmp_path / "log.csv"
    log.write_text(text)
    found, expected = probe(python, log), computed(log)
    assert {name: found[name] for name in expected} == expected
    assert {"numba", "llvmlite", "scipy", "plotly", "jinja2"}.isdisjoint(found["packages"])
    assert found["failed"] == {}
    squares = [key * key for key in range(len(expected["scapy"]["rows"]))]
    assert expected["scapy"]["pulled"] == expected["scapy"]["rows"] == [[square] for square in squares]


@pytest.mark.parametrize(
    ("arguments", "subject"),
    [
        (("softswitch", "--no-p4"), "softswitch"),
        (("softswitch", "explain"), "softswitch"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_command_without_numba_names_numba_and_its_installation(
    python: Path, arguments: tuple[str, ...], subject: str
) -> None:
    done = run(python, *arguments)
    assert done.returncode == 1 and not done.stdout
    assert says_in_one_line(done.stderr, subject, "numba", "llvmlite", "pip install")


@pytest.mark.parametrize("codec", ["fast", "mixed"])
def test_a_run_of_compiled_agents_names_a_missing_package(python: Path, codec: str) -> None:
    done = run(python, "hotline.cli", "run", "TARGET=bmv2", f"CODEC={codec}")
    assert done.returncode == 1 and not done.stdout
    assert says_in_one_line(done.stderr, f"CODEC={codec}", "compiled agents", "pip install", "CODEC=scapy")
    assert "packages/agents" in done.stderr


def test_without_the_package_of_compiled_agents_scapy_is_the_default_codec(python: Path) -> None:
    show = (
        "from experiment.run_config import Config, load_config as load; "
        "print(load([]).codec, load([]).top_k, Config(script='x').codec)"
    )
    done = subprocess.run(
        [python, "-c", show], capture_output=True, text=True, cwd=ROOT, env=environment_with_checkout()
    )
    assert done.stdout == f"scapy {Config(codec='scapy').top_k} fast\n", done.stderr
    assert Config().codec == "fast"


@pytest.mark.parametrize(
    ("verb", "package"),
    [("recover", "agents"), ("up", "scripts"), ("simulate", "simulator"), ("explain", "simulator")],
)
def test_a_verb_of_a_package_that_is_missing_names_the_package(python: Path, verb: str, package: str) -> None:
    done = run(python, "hotline.cli", verb)
    assert done.returncode == 2
    assert f"No such command '{verb}'; packages/{package} has it" in done.stderr


@pytest.mark.parametrize(
    ("name", "package"), [("Worker", "scripts"), ("torch", "scripts"), ("simulate", "simulator")]
)
def test_a_name_of_a_package_that_is_missing_names_the_package(python: Path, name: str, package: str) -> None:
    done = subprocess.run(
        [python, "-c", f"import hotline; hotline.{name}"], capture_output=True, text=True, cwd=ROOT,
        env=environment_with_checkout(),
    )  # fmt: skip
    assert f"no attribute '{name}'; packages/{package} has it" in done.stderr


def test_a_script_names_the_missing_package_of_compiled_agents(python: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.touch()
    done = run(python, "hotline.cli", "run", "TARGET=bmv2", f"SCRIPT={script}")
    assert done.returncode == 1
    assert says_in_one_line(done.stderr, "CODEC=fast", "compiled agents", "packages/agents")
