"""The commands that need no switch."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hotline.cli.commands import hotline


def run(*arguments: str) -> Result:
    return CliRunner().invoke(hotline, arguments)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text("job,ps,key,updates\n1,0,5,60\n1,0,6,30\n2,0,7,10\n")
    return path


def test_build_and_show(tmp_path: Path, log: Path) -> None:
    file = str(tmp_path / "hot.parquet")
    built = run("hotset", "build", str(log), "--top-k", "2", "-o", file)
    assert built.exit_code == 0
    assert built.output == (
        f"{file}: 2 keys with 90.0% of all updates; 0 to 1 keys in each of the 32 lanes\n"
    )
    shown = run("hotset", "show", file)
    assert shown.exit_code == 0 and "60.0000%" in shown.output
    summary = json.loads(run("hotset", "show", file, "--json").output)
    assert (summary["keys"], summary["updates"], summary["share"]) == (2, 90, pytest.approx(0.9))
    assert [row["key"] for row in summary["head"]] == [5, 6]


def test_build_of_one_job(tmp_path: Path, log: Path) -> None:
    file = tmp_path / "hot.parquet"
    built = run(
        "hotset", "build", str(log), str(log), "--top-k", "1", "--job", "2", "-o", str(file), "--json"
    )
    assert json.loads(built.output) | {"keys_in_lane": None} == {
        "file": str(file), "keys": 1, "updates": 20, "share": 1.0, "keys_in_lane": None,
    }  # fmt: skip


@pytest.mark.parametrize("command", [("hotset", "show"), ("load", "--job", "1")])
def test_a_bad_file_ends_with_one_line_and_an_exit_code(log: Path, command: tuple[str, ...]) -> None:
    result = run(*command, str(log))
    assert result.exit_code == 1
    assert result.stderr == f"Error: {log}: not a Parquet file; `hotline hotset build` writes hot sets\n"


def test_a_switch_that_is_not_there() -> None:
    result = run("status", "--switch", "127.0.0.1:1")
    assert result.exit_code == 1
    assert result.stderr == (
        "Error: no switch answers at 127.0.0.1:1; is it running, and is the address right?\n"
    )


@pytest.mark.parametrize("address", ["nonsense", "", "127.0.0.1:99999", "127.0.0.1:0", ":9559", "a:b:1"])
def test_a_switch_address_that_is_none(address: str) -> None:
    result = run("status", "--switch", address)
    assert result.exit_code == 1
    assert result.stderr == f"Error: switch address: expected HOST:PORT, as 127.0.0.1:9559, got {address!r}\n"


def test_a_log_is_not_overwritten(log: Path) -> None:
    before = log.read_bytes()
    result = run("hotset", "build", str(log), "--top-k", "2", "-o", str(log))
    assert result.exit_code == 1 and "would overwrite the log" in result.stderr
    assert log.read_bytes() == before


def test_a_log_that_is_not_there_ends_with_one_line(tmp_path: Path) -> None:
    missing = tmp_path / "log.parquet"
    result = run("hotset", "build", str(missing), "--top-k", "2", "-o", str(tmp_path / "hot.parquet"))
    assert result.exit_code == 1
    assert result.stderr == f"Error: {missing}: cannot be read: No such file or directory\n"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (random.Random(1).randbytes(1000), "is neither text nor Parquet, which begins with PAR1"),
        (b"", "is empty"),
    ],
    ids=["random", "empty"],
)
def test_a_log_that_is_none_ends_with_one_line(tmp_path: Path, content: bytes, what: str) -> None:
    log = tmp_path / "x.parquet"
    log.write_bytes(content)
    result = run("hotset", "build", str(log), "--top-k", "2", "-o", str(tmp_path / "hot.parquet"))
    assert result.exit_code == 1
    assert result.stderr == f"Error: {log}: {what}; an update log is Parquet or CSV\n"


def test_wrong_usage_is_told_by_the_command_line() -> None:
    assert run("load", "--job", "70000", "x").exit_code == 2
    assert run("hotset", "build", "--top-k", "1", "x").exit_code == 2
    assert run("status", "--device-id", "0").exit_code == 2
    assert run("hotset", "build", "--top-k", "0", "-o", "x", "y").exit_code == 2


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (("--top-k", "0"), "0 is not in the range 1<=x<=131072"),
        (("--top-k", "131073"), "131073 is not in the range 1<=x<=131072"),
        (("--period-s", "-1"), "-1.0 is not in the range 0.2<=x<=86400"),
        (("--margin", "0.9"), "0.9 is not in the range 1<=x<=1000"),
        (("--max-moves", "0"), "0 is not in the range x>=1"),
        (("--periods", "0"), "0 is not in the range x>=1"),
    ],
)
def test_what_cannot_be_followed_is_told_in_one_line(option: tuple[str, str], told: str) -> None:
    result = run("follow", "--job", "1", "--top-k", "5", *option)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == f"Error: Invalid value for '{option[0]}': {told}."


@pytest.mark.parametrize(
    "command",
    [
        ("answer", "--workers", "4", "--servers", "2", "--rate"),
        ("answer", "--workers", "4", "--servers", "2", "--skew"),
        ("registers", "--job", "1", "--scale"),
        ("watch", "--interval"),
        ("follow", "--job", "1", "--top-k", "5", "--period-s"),
        ("follow", "--job", "1", "--top-k", "5", "--margin"),
    ],
)
def test_what_is_not_a_number_is_in_no_range(command: tuple[str, ...]) -> None:
    result = run(*command, "nan")
    assert result.exit_code == 2
    assert f"'{command[-1]}': 'nan' is not a finite number" in result.stderr
