"""The functions of `import hotline`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hotline
from hotline.runs import Run
from switch_harness.wording import mentions

SMALL: dict[str, Any] = {
    "workers": 2,
    "servers": 2,
    "arms": ["baseline", "offload"],
    "top_k": 200,
    "rounds": 1,
    "loads": [0.5],
    "block_ms": 2,
    "discard_ms": 0,
    "trace_steps": 40,
    "profile_lanes": 10_000,
}


@pytest.mark.parametrize("name", hotline.__all__)
def test_every_public_name_of_the_package_exists_and_has_a_docstring(name: str) -> None:
    assert getattr(hotline, name).__doc__ and name in dir(hotline)


def test_an_unknown_name_is_answered_with_the_known_names() -> None:
    with pytest.raises(AttributeError, match=mentions("simulat", "attribute")):
        _ = hotline.simulat


def test_importing_hotline_imports_no_heavy_package() -> None:
    heavy = {"numba", "polars", "finsy", "numpy", "torch"}
    loaded = f"import sys, hotline; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True).stdout == "[]\n"


def test_without_pytorch_the_layers_say_how_to_install_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "hotline.torch", raising=False)
    monkeypatch.delitem(vars(hotline), "torch", raising=False)
    with pytest.raises(hotline.HotlineError, match=mentions("torch>=2.1", "install")):
        _ = hotline.torch


def test_a_simulated_run_returns_its_numbers_and_its_report_can_be_rebuilt(tmp_path: Path) -> None:
    made = hotline.simulate(runs=tmp_path / "runs", **SMALL)
    made.check()
    assert made.page.is_file() and made.folder == (tmp_path / "runs" / "latest").resolve()
    again = hotline.report(made.folder)
    assert isinstance(again, Run) and again.summary == made.summary == hotline.read(made.folder).summary


def test_given_settings_override_the_settings_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("workers = 2\nservers = 2\n")
    with pytest.raises(hotline.HotlineError, match=r"^rounds = -1: "):
        hotline.simulate(file, rounds=-1, runs=tmp_path)
    file.write_text("workers = 0\n")
    with pytest.raises(hotline.HotlineError, match=rf"^CONFIG={file}: workers = 0: "):
        hotline.simulate(file, rounds=1, runs=tmp_path)
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("wrong", ["workers", "servers", "keys_per_step", "top_k", "skew"])
def test_an_impossible_cluster_is_refused_by_name(wrong: str) -> None:
    cluster: dict[str, Any] = {"workers": 2, "servers": 2, wrong: 0}
    with pytest.raises(hotline.HotlineError, match=f"^{wrong} = 0: "):
        hotline.answer(**cluster)
