"""Files of wheels that tests read, downloaded once, without the packages that the wheels depend on."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from nativekit.cache import user_cache
from switch_harness.namespaces import on_the_machines_network

RECBOLE = "recbole==1.2.1"
TORCHREC = "torchrec==1.9.2"
_MOVIELENS = "recbole/dataset_example/ml-100k/ml-100k.inter"


def movielens() -> Path:
    """Return MovieLens-100k of the package recbole."""
    return file_of_wheel(RECBOLE, _MOVIELENS)


def file_of_wheel(package: str, name: str) -> Path:
    """Return a file of a package's wheel; without a package index, raise `CalledProcessError`."""
    file = user_cache() / "tests" / package / name
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=file.parent) as folder:
            options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--dest", folder]
            pip = [*on_the_machines_network(), sys.executable, "-m", "pip", "download", *options, package]
            subprocess.run(pip, check=True)
            with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
                # Another process may be doing the same.
                Path(wheel.extract(name, folder)).rename(file)
    return file
