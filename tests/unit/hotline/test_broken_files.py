"""Every path argument of every command, with every kind of broken file: one error that names the path."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import polars as pl
import pytest
from click.testing import CliRunner, Result

from controller.hotset import choice
from foundation.checkout import ROOT
from foundation.errors import reason_of
from hotline.cli.commands import hotline
from tests.harness.broken_files import BROKEN, PathArgument, path_arguments

ARGUMENTS = list(path_arguments(hotline))
INPUTS = [argument for argument in ARGUMENTS if not argument.is_output]
TOML = {
    ("cluster", "hosts_file"), ("predict", "hosts_file"), ("simulate", "config"),
    ("sweep", "config"), ("up", "file"),
}  # fmt: skip
"""Arguments that are settings, all of which have defaults: an empty file is a valid one."""
COMPANIONS: dict[tuple[str, ...], list[str]] = {
    ("answer", "predict", "run"): ["--from", "{run}"],
    ("answer", "sweep", "config"): ["--vary", "top_k=1,2"],
}
"""Further options that these arguments need, which Click cannot require."""
EXERCISE = ROOT / "examples" / "course" / "07-rule"
TINY_RUN = """
workers = 1
servers = 1
rounds = 2
top_k = 20
block_ms = 1
discard_ms = 0
block_steps = 1
trace_steps = 8
loads = [0.5]
runs = "{runs}"
[workload]
parameters = 200
hot_parameters = 20
keys_per_step = 20
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log that every command can read."""
    file = tmp_path_factory.mktemp("log") / "log.parquet"
    pl.DataFrame({"iteration": range(9), "worker": 1, "key": range(9)}).write_parquet(file)
    return file


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    config = folder / "run.toml"
    config.write_text(TINY_RUN.format(runs=folder / "runs"))
    assert CliRunner().invoke(hotline, ["simulate", str(config)]).exit_code == 0
    return (folder / "runs" / "latest").resolve()


def invoke(arguments: list[str]) -> Result:
    return CliRunner().invoke(hotline, arguments)


def assert_one_error(result: Result, path: Path, arguments: list[str]) -> None:
    command = " ".join(arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), (
        f"{command}: {result.exception!r}"
    )
    assert result.exit_code in (1, 2), f"{command}: exit status {result.exit_code}\n{result.output}"
    errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1 and str(path) in errors[0], f"{command}:\n{result.stderr}"
    assert "Traceback" not in result.output
    # The cause is the true one: nothing here is a full disk.
    assert "disk" not in errors[0].replace(str(path), ""), errors[0]


def command_line(argument: PathArgument, path: Path, log: Path, run: Path, output: Path) -> list[str]:
    """Return a command line with this path, and valid values of all that the command requires."""
    options, positional = list[str](), list[str]()
    for parameter in (argument.parameter, *argument.others):
        value = str(path) if parameter is argument.parameter else valid_value(parameter, log, run, output)
        if isinstance(parameter, click.Option):
            options += [parameter.opts[0], value]
        else:
            positional += [value, value] if parameter.name == "runs" else [value]
    companions = COMPANIONS.get((*argument.command, argument.parameter.name or ""), [])
    options += [each.format(run=run) for each in companions]
    return [*argument.command, *options, "--", *positional]


def valid_value(parameter: click.Parameter, log: Path, run: Path, output: Path) -> str:
    if isinstance(parameter.type, click.IntRange):
        return "1"
    if isinstance(parameter.type, click.Path):
        known = {"output": output, "run": run, "folders": EXERCISE}
        return str(known.get(parameter.name or "", log))
    raise AssertionError(f"expected a value for the parameter {parameter.name}, of a new command")


def test_all_commands_with_paths_are_found() -> None:
    """The commands of the issue are among those that the command tree has."""
    commands = {" ".join(argument.command) for argument in ARGUMENTS}
    assert {
        "answer cluster",
        "hotset curve",
        "hotset build",
        "report",
        "answer fit",
        "figures",
        "recover",
        "load",
    } <= commands
    assert len(INPUTS) >= 25


def broken_paths(argument: PathArgument, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield each kind of broken file, and for a run's folder also a folder with such a run.json."""
    key = (argument.command[-1], argument.parameter.name)
    for number, (kind, put) in enumerate(BROKEN.items()):
        if not (kind == "empty" and key in TOML):
            path = folder / f"broken-{number}"
            put(path)
            yield kind, path
        if argument.parameter.name in ("run", "runs", "predictor"):
            path = folder / f"run-{number}"
            path.mkdir()
            put(path / "run.json")
            yield f"run.json: {kind}", path


@pytest.mark.parametrize("argument", INPUTS, ids=map(str, INPUTS))
def test_a_broken_file_is_one_error_that_names_the_file(
    argument: PathArgument, tmp_path: Path, log: Path, run: Path
) -> None:
    for _kind, path in broken_paths(argument, tmp_path):
        arguments = command_line(argument, path, log, run, tmp_path / "output.csv")
        assert_one_error(invoke(arguments), path, arguments)
        assert not (tmp_path / "output.csv").exists()


READERS = (["report"], ["compare"], ["logs", "check"], ["answer", "fit"], ["answer", "predict", "--from"])
PARQUET_KINDS = ("folder", "symlink loop", "empty", "wrong magic", "Parquet without its end",
                 "Parquet with a corrupt footer", "JSON that lacks fields")  # fmt: skip


@pytest.mark.parametrize("name", ["rpc", "operations", "connections"])
def test_a_run_with_a_broken_log_is_one_error_that_names_the_run(
    run: Path, name: str, tmp_path: Path
) -> None:
    for number, kind in enumerate(("missing", *PARQUET_KINDS)):
        folder = tmp_path / f"{number}"
        shutil.copytree(run, folder)
        (folder / f"{name}.parquet").unlink()
        BROKEN[kind](folder / f"{name}.parquet")
        for command in READERS:
            arguments = [*command, str(folder)]
            arguments += [str(run)] if command == ["compare"] else [str(folder)] * ("--from" in command)
            result = invoke(arguments)
            if result.exit_code == 0:
                # Not every command reads connections, and a run may have none.
                is_none = kind in ("missing", "symlink loop")
                assert name == "connections" and (is_none or command != ["report"])
            else:
                assert_one_error(result, folder, arguments)


def test_a_damaged_page_of_a_log_is_one_error(run: Path, tmp_path: Path) -> None:
    """The header is whole, so that only reading the rows can find the damage."""
    folder = tmp_path / "damaged"
    shutil.copytree(run, folder)
    file = folder / "rpc.parquet"
    data = bytearray(file.read_bytes())
    data[4 : len(data) // 2] = bytes(255 - byte for byte in data[4 : len(data) // 2])
    file.write_bytes(data)
    for arguments in (["report", str(folder)], ["compare", str(folder), str(run)],
                      ["figures", str(folder), "-o", str(tmp_path / "figures")]):  # fmt: skip
        assert_one_error(invoke(arguments), folder, arguments)


def test_a_run_without_the_files_of_its_agents_cannot_be_recovered(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    (folder / "unreplayed").mkdir()
    assert_one_error(invoke(["recover", str(folder)]), folder, ["recover"])


@pytest.mark.parametrize("kind", ["folder", "parent is a file", "no parent"])
def test_an_output_that_cannot_be_written_is_one_error_that_names_the_path(
    kind: str, tmp_path: Path, log: Path
) -> None:
    files = [argument for argument in ARGUMENTS if argument.is_output and argument.parameter.name != "into"]
    checked = [
        each for each in files if each.command[0] in ("check", "hotset") or each.command[-1] == "miss-ratio"
    ]
    assert len(checked) == 6
    (tmp_path / "file").touch()
    for number, argument in enumerate(checked):
        path = {
            "parent is a file": tmp_path / "file" / "out.csv",
            "no parent": tmp_path / "no" / "out.csv",
        }.get(kind, tmp_path / f"out-{number}.csv")
        if kind in BROKEN:
            BROKEN[kind](path)
        names = ("files", "logs")
        inputs = [each for each in command_of(argument).params if each.name in names]
        arguments = command_line(
            PathArgument(argument.command, argument.parameter, (*argument.others, *inputs)),
            path,
            log,
            log,
            path,
        )
        arguments = arguments[: arguments.index("--") + 2]
        assert_one_error(invoke(arguments), path, arguments)


def command_of(argument: PathArgument) -> click.Command:
    command: click.Command = hotline
    for name in argument.command:
        assert isinstance(command, click.Group)
        command = command.commands[name]
    return command


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "No space left on device"), (errno.EACCES, "Permission denied"),
        (errno.EIO, "Input/output error"), (errno.EMFILE, "Too many open files"),
        (errno.EROFS, "Read-only file system"), (errno.ENAMETOOLONG, "File name too long"),
    ],
)  # fmt: skip
def test_an_operating_system_error_anywhere_in_a_command_is_one_error(
    number: int, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, log: Path
) -> None:
    """An `OSError` that no code expects names its file and its true cause, too."""

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number), str(tmp_path / "somewhere"))

    monkeypatch.setattr(choice, "read", refuse)
    result = invoke(["hotset", "show", str(log)])
    assert (result.exit_code, result.stderr) == (1, f"Error: {tmp_path / 'somewhere'}: {reason}\n")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("corrupt deflate stream", "corrupt deflate stream"),
        ("No such file or directory (os error 2): /data/log.csv", "No such file or directory"),
        ("io: Too many levels of symbolic links (os error 40)", "Too many levels of symbolic links"),
        ("10 requested and 9 written", "10 requested and 9 written: the disk may be full"),
    ],
)
def test_the_reason_of_an_error_is_the_systems_reason(text: str, reason: str) -> None:
    """Libraries raise `OSError` without a number; only a short write means a full disk."""
    assert reason_of(OSError(text)) == reason
