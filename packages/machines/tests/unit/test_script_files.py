"""What a script imports from its folder, and what differs between machines."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from hotline_machines.errors import MachinesError
from hotline_machines.script_files import ScriptFiles, check_scripts, describe_script

FILES = {
    "train.py": "import numpy as np, a.b.c\nfrom d import e\ndef late():\n from f import *\nimport os, train",
    "a/__init__.py": "", "a/b/__init__.py": "from .. import near", "a/b/c.py": "from . import beside",
    "a/b/beside.py": "import train", "a/near.py": "from ..... import far",
    "d/e.py": "", "f.py": "this is no Python", "unused.py": "import polars",
}  # fmt: skip
"""The folder `d` is a package without `__init__.py`."""


@pytest.fixture
def script(tmp_path: Path) -> str:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return str(tmp_path / "train.py")


def test_a_script_is_described_by_its_file_and_all_imported_files(script: str, tmp_path: Path) -> None:
    found = describe_script(script, str(tmp_path))
    assert set(found.digests) == FILES.keys() - {"unused.py"}
    assert found.packages == {"numpy": version("numpy")} and found.folder_exists
    assert describe_script(script, str(tmp_path / "none")) == found._replace(folder_exists=False)
    assert describe_script(str(tmp_path / "none.py"), str(tmp_path)).digests == {}


@pytest.mark.parametrize("name", FILES)
def test_each_file_that_differs_is_named_with_its_machine(script: str, name: str, tmp_path: Path) -> None:
    own = describe_script(script, str(tmp_path))
    (tmp_path / name).write_text(f"{FILES[name]} # changed")
    changed = describe_script(script, str(tmp_path))
    machines = {"a": own, "b": changed, "c": changed}
    if name == "unused.py":
        check_scripts("train.py", str(tmp_path), own, machines)
        return
    with pytest.raises(MachinesError) as refused:
        check_scripts("train.py", str(tmp_path), own, machines)
    assert str(refused.value) == (
        f"b: SCRIPT=train.py: expected file {name} as on this machine ({own.digests[name]}), found "
        f"{changed.digests[name]}"
    )


OWN = ScriptFiles(True, {"train.py": "aa"}, {"torch": "2.1"})


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (OWN._replace(digests={}), "expected file train.py as on this machine (aa), found none"),
        (
            OWN._replace(digests={"train.py": "aa", "x.py": "b"}),
            "expected file x.py as on this machine (none)",
        ),
        (
            OWN._replace(packages={"torch": "2.4"}),
            "expected package torch as on this machine (2.1), found 2.4",
        ),
        (OWN._replace(packages={}), "expected package torch as on this machine (2.1), found none"),
        (OWN._replace(folder_exists=False), "expected the folder /here, in which it is started, as on this"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_or_package_that_a_machine_lacks_is_named(other: ScriptFiles, message: str) -> None:
    with pytest.raises(MachinesError) as refused:
        check_scripts("train.py", "/here", OWN, {"a": OWN, "b": other})
    assert str(refused.value).startswith(f"b: SCRIPT=train.py: {message}")
