"""Reading a curve of utilisation, and its refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from foundation.errors import DataError
from studies.dense.network import read_utilisation


def test_a_curve_is_read(tmp_path: Path) -> None:
    file = tmp_path / "curve.csv"
    file.write_text("utilisation,gbit\n0.95,10\n0.3,100\n")
    assert read_utilisation(file) == ((10.0, 0.95), (100.0, 0.3))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gbit\n10\n", "its columns are gbit; expected gbit, utilisation"),
        ("gbit,utilisation\n", "has no row"),
        ("gbit,utilisation\n10,\n", "line 2: column utilisation is empty"),
        ("gbit,utilisation\n10,x\n", "line 2: column utilisation is 'x'; a number expected"),
        (
            "gbit,utilisation\n10,0.5\n10,0.6\n",
            "line 3: column gbit is 10; expected more than in the previous line",
        ),
        ("gbit,utilisation\n10,95\n", "line 2: column utilisation is 95; a share up to 1"),
        ("gbit,utilisation\nnan,1\n", "line 2: column gbit is nan"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "curve.csv"
    file.write_text(text)
    with pytest.raises(DataError) as error:
        read_utilisation(file)
    assert message in str(error.value) and str(file) in str(error.value)
