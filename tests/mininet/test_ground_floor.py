"""`hotline run TARGET=bmv2 CODEC=scapy` with the packages of the ground floor alone.

softswitch stands for BMv2, as a program in its own environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from foundation.checkout import ROOT, environment_with_checkout
from softswitch.bmv2.install import install
from softswitch.processes import BMV2_PROGRAM, installed_bmv2
from softswitch.warm import is_cold
from switch_harness.wording import says
from tests.harness.ground_floor import make_ground_floor
from tests.mininet.run_topo import _PORTS, PATIENCE_S, record_of
from tests.mininet.test_run_topo import SMALL_SCAPY
from topologies.agent_launcher import AGENTS_LOG

pytestmark = pytest.mark.mininet


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_ground_floor(tmp_path_factory.mktemp("ground-floor") / "environment")


def path_without_bmv2() -> str:
    folders = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(each for each in folders if not (Path(each) / BMV2_PROGRAM).exists())


def run(python: Path, folder: Path, bmv2: str, **settings: object) -> subprocess.CompletedProcess[str]:
    config = folder / "run.toml"
    values = {**SMALL_SCAPY, "runs": str(folder / "runs"), **settings}
    config.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items()))
    command = [str(python), "-m", "hotline.cli", "run", f"CONFIG={config}", "TARGET=bmv2", "CODEC=scapy"]
    environment = {**environment_with_checkout(), "PATH": path_without_bmv2(), "HOTLINE_BMV2": bmv2}
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=PATIENCE_S
    )


def check_run(python: Path, folder: Path, bmv2: str) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Run on a BMv2, and return the folder of the complete and exact run."""
    done = run(python, folder, bmv2, p4runtime_port=next(_PORTS))
    assert done.returncode == 0, done.stderr
    record = record_of(runs := (folder / "runs" / "latest").resolve())
    assert record["accounting"]["sent"] > 0
    assert {record["accounting"][name] for name in ("lost", "mismatched_keys", "overflows")} == {0}
    assert {block["arm"] for block in record["blocks"]} == {"baseline", "offload"}
    assert record["agents"].keys() == {"scapy"} and {"llvmlite", "scipy"}.isdisjoint(record["versions"])
    return done, runs


@pytest.mark.bmv2
def test_a_run_without_numba_measures_behavioral_model_with_agents_of_scapy(
    python: Path, tmp_path: Path
) -> None:
    bmv2 = installed_bmv2()
    assert bmv2 is not None
    _, folder = check_run(python, tmp_path, bmv2)
    assert "softswitch" not in record_of(folder)["versions"]["bmv2"]


def test_a_run_without_numba_measures_bmv2_with_agents_of_scapy(python: Path, tmp_path: Path) -> None:
    if is_cold():
        subprocess.run([sys.executable, "-m", "softswitch.warm"], check=True)
    install(tmp_path / "bmv2")
    done, folder = check_run(python, tmp_path, str(tmp_path / "bmv2"))
    assert "softswitch" in record_of(folder)["versions"]["bmv2"]
    assert not (folder / "logs" / AGENTS_LOG).exists()  # there was no fork server
    # What the run leaves out is said where it is left out.
    assert says(done.stderr, "compiled agents", "fork server", "dedicated switch")
    assert says(done.stderr, "no report.html", "jinja2", "plotly")
    assert (folder / "summary.json").exists() and not (folder / "report.html").exists()


@pytest.mark.parametrize("place", ["", "/nowhere"])
def test_a_run_without_numba_looks_for_bmv2_and_names_its_variable(
    python: Path, tmp_path: Path, place: str
) -> None:
    done = run(python, tmp_path, place)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert says(last, "TARGET=bmv2", "HOTLINE_BMV2", "Vagrantfile", "numba")
    assert not list((tmp_path / "runs").glob("*/"))


def test_a_run_on_softswitch_without_numba_names_numba_and_bmv2(python: Path, tmp_path: Path) -> None:
    command = [str(python), "-m", "hotline.cli", "run", "CODEC=scapy"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment_with_checkout())
    assert done.returncode == 1
    assert says(done.stderr.splitlines()[-1], "TARGET=softswitch", "numba", "llvmlite", "TARGET=bmv2")
