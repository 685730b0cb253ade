"""Formats that are not read, with the line of Python that converts a file of each to Parquet."""

from __future__ import annotations

import re
from pathlib import Path
from zipfile import BadZipFile, ZipFile

ZIP = b"PK\x03\x04"
_ARRAYS = 'polars.DataFrame({{name: list(each) for name, each in numpy.load("{path}").items()}})'
_OF_ZIP: dict[str, tuple[str, str]] = {
    r".*\.npy": ("NumPy's npz", f"import numpy, polars; {_ARRAYS}"),
    r"(.*/)?data\.pkl": (
        "a file of torch.save",
        "import torch, polars; "
        'polars.DataFrame({{name: each.tolist() for name, each in torch.load("{path}").items()}})',
    ),
    r"xl/.*": ("a workbook of Excel", 'import polars; polars.read_excel("{path}")'),
}
_OF_MAGIC: dict[bytes, tuple[str, str]] = {
    b"\x93NUMPY": (
        "NumPy's npy",
        'import numpy, polars; polars.DataFrame({{"item_id": list(numpy.load("{path}"))}})',
    ),
    b"\x89HDF\r\n": ("HDF5", 'import pandas; pandas.read_hdf("{path}")'),
    b"FEA1": ("Feather of version 1", 'import pandas; pandas.read_feather("{path}")'),
    b"ORC": ("ORC", 'import pandas; pandas.read_orc("{path}")'),
    b"Obj\x01": ("Avro", 'import polars; polars.read_avro("{path}")'),
    b"SQLite format 3\x00": (
        "a database of SQLite",
        'import pandas, sqlite3; pandas.read_sql("SELECT * FROM accesses", sqlite3.connect("{path}"))',
    ),
    **{
        bytes((0x80, protocol)): ("a pickle", 'import pandas; pandas.read_pickle("{path}")')
        for protocol in range(2, 6)
    },
}


def conversion_of(path: Path, head: bytes) -> str | None:
    """Return what a file is that is not read, and how to convert it; None for other files."""
    found = _kind_of_zip(path) if head.startswith(ZIP) else None
    found = found or next((each for magic, each in _OF_MAGIC.items() if head.startswith(magic)), None)
    if found is None:
        return "is a zip archive; expected a file of it, unpacked" if head.startswith(ZIP) else None
    format, expression = found
    write = "to_parquet" if "import pandas" in expression else "write_parquet"
    line = f'{expression.format(path=path)}.{write}("log.parquet")'
    return f"is {format}, which is not read; expected what this line of Python makes of it: {line}"


def _kind_of_zip(path: Path) -> tuple[str, str] | None:
    try:
        with ZipFile(path) as archive:
            names = archive.namelist()
    except (BadZipFile, OSError):
        return None
    return next(
        (kind for pattern, kind in _OF_ZIP.items() if any(re.fullmatch(pattern, name) for name in names)),
        None,
    )
