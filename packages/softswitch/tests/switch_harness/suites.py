"""Run suites of others on softswitch and on BMv2, and print a table in Markdown.

From the folder tests, with checkouts and binaries that are there already:

    python -m switch_harness.suites --bmv2 DIR --p4c CHECKOUT --gtests PROGRAM --ptf CHECKOUT
        [--finsy CHECKOUT] [--p4testgen PROGRAM CHECKOUT] [--only REGEX]

`--bmv2` is a folder with `simple_switch`, `simple_switch_CLI` and `simple_switch_grpc`; without it only
softswitch runs. `--p4c` runs p4c's STF samples by its own runner, which needs ptf, scapy and ply in the
Python that `--python` names, and p4c-bm2-ss on the PATH. `--gtests` is behavioral-model's test program of
simple_switch_grpc, linked with gtest_main instead of its main.cpp, and `--testdata` its folder testdata.
`--ptf` runs the PTF tests of a checkout of p4lang/tutorials or p4-guide, as `ptf_suites` says. `--finsy` runs
the tests of finsy's examples, as `finsy_examples` says. `--p4testgen` has that program generate tests for the
samples of a checkout of p4c, and runs them as `softswitch conformance` does, softswitch in process.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from softswitch.bmv2.install import install
from softswitch.processes import start_switch
from switch_harness.finsy_examples import run_finsy
from switch_harness.p4testgen import generate_tests, run_generated
from switch_harness.ptf_suites import run_ptf

TEST_S = 120.0
GRPC_PORT, DATA_PORT, CPU_PORT, DEVICE_ID = 50056, 50057, 64, 3
"""What behavioral-model's tests expect (base_test.h)."""


_VERDICTS = {True: "passes", False: "fails", None: "does not run"}


class Suite(NamedTuple):
    """A suite with its results: whether each test passes, by its name, for each switch."""

    name: str
    results: Mapping[str, Mapping[str, bool]]

    def rows(self) -> Iterator[str]:
        tests = sorted(set().union(*self.results.values()))
        passed = {switch: sum(found.values()) for switch, found in self.results.items()}
        yield f"| {self.name} | {len(tests)} | " + " | ".join(map(str, passed.values())) + " |"
        for test in tests:
            verdicts = {switch: found.get(test) for switch, found in self.results.items()}
            if set(verdicts.values()) != {True}:
                shown = (f"{switch} {_VERDICTS[is_ok]}" for switch, is_ok in verdicts.items())
                yield f"  {test}: {', '.join(shown)}"


def run_stf(checkout: Path, python: str, programs: Path, only: re.Pattern[str]) -> dict[str, bool]:
    """Run p4c's v1model samples that have an STF file; `programs` is the folder of the switch."""
    samples = checkout / "testdata" / "p4_16_samples"
    found: dict[str, bool] = {}
    compiler = shutil.which("p4c-bm2-ss")
    if compiler is None:
        sys.exit("suites: p4c-bm2-ss is not on PATH")
    with TemporaryDirectory() as folder:
        (Path(folder) / "p4c-bm2-ss").symlink_to(compiler)
        (Path(folder) / "config.h").write_text("#define HAVE_SIMPLE_SWITCH 1\n")
        for vectors in sorted(samples.glob("*.stf")):
            program = vectors.with_suffix(".p4")
            if (
                not program.exists()
                or "v1model.p4" not in program.read_text()
                or not only.search(program.stem)
            ):
                continue
            runner = checkout / "backends" / "bmv2" / "run-bmv2-test.py"
            command = [python, runner, checkout, "-bd", folder, program, "-tf", vectors]
            environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
            found[program.stem] = _passes(list(map(str, command)), environment, Path(folder))
    return found


def _passes(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> bool:
    try:
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, timeout=TEST_S)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def run_gtests(tests: Path, testdata: Path, programs: Path, only: re.Pattern[str]) -> dict[str, bool]:
    """Run behavioral-model's tests of simple_switch_grpc, all on one switch as they are written for."""
    listed = subprocess.run([tests, "--gtest_list_tests"], capture_output=True, text=True, check=True)
    names: list[str] = []
    suite = ""
    for line in listed.stdout.splitlines():
        if line.startswith("  "):
            names.append(suite + line.strip().partition(" ")[0])
        elif line.endswith("."):
            suite = line
    found: dict[str, bool] = {}
    with _switch(programs, testdata):
        for name in filter(only.search, names):
            with TemporaryDirectory() as folder:
                command = [str(tests), f"--gtest_filter={name}"]
                found[name] = _passes(command, os.environ, Path(folder))
    return found


@contextmanager
def _switch(programs: Path, testdata: Path) -> Iterator[None]:
    command = [
        str(programs / "simple_switch_grpc"), "--device-id", str(DEVICE_ID), str(testdata / "loopback.json"),
        "--", "--grpc-server-addr", f"0.0.0.0:{GRPC_PORT}", "--dp-grpc-server-addr", f"0.0.0.0:{DATA_PORT}",
        "--cpu-port", str(CPU_PORT),
    ]  # fmt: skip
    with Path(os.devnull).open("wb") as output:
        switch = start_switch(command, output, f"127.0.0.1:{DATA_PORT}")
        try:
            switch.wait_until_it_listens()
            yield
        finally:
            switch.end()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m switch_harness.suites", description=__doc__)
    parser.add_argument("--bmv2", type=Path, metavar="DIR")
    parser.add_argument("--p4c", type=Path, metavar="CHECKOUT")
    parser.add_argument("--python", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--gtests", type=Path, metavar="PROGRAM")
    parser.add_argument("--testdata", type=Path, metavar="DIR")
    parser.add_argument("--ptf", type=Path, action="append", default=[], metavar="CHECKOUT")
    parser.add_argument("--finsy", type=Path, metavar="CHECKOUT")
    parser.add_argument("--p4testgen", type=Path, nargs=2, metavar=("PROGRAM", "CHECKOUT"))
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX")
    values = parser.parse_args(arguments)
    if (values.gtests is None) != (values.testdata is None):
        parser.error("--gtests goes with --testdata")
    with TemporaryDirectory() as folder:
        install(Path(folder))
        switches = {"softswitch": Path(folder)}
        if values.bmv2 is not None:
            switches = {"BMv2": values.bmv2.absolute(), **switches}
        suites = []

        def add(suite: str, run: Callable[[Path], Mapping[str, bool]]) -> None:
            suites.append(Suite(suite, {switch: run(at) for switch, at in switches.items()}))

        if values.p4c is not None:
            checkout = values.p4c.absolute()
            add("p4c's STF samples", lambda at: run_stf(checkout, values.python, at, values.only))
        if values.gtests is not None:
            tests, data = values.gtests.absolute(), values.testdata.absolute()
            add(
                "behavioral-model's gtests of simple_switch_grpc",
                lambda at: run_gtests(tests, data, at, values.only),
            )
        for ptf in (path.absolute() for path in values.ptf):
            run = partial(run_ptf, ptf, values.python, only=values.only)
            add(f"PTF tests of {ptf.name}", run)
        if values.finsy is not None:
            finsy = values.finsy.absolute()
            add("finsy's example tests", lambda at: run_finsy(finsy, values.python, at, values.only))
        if values.p4testgen is not None:
            testgen, samples = (path.absolute() for path in values.p4testgen)
            with TemporaryDirectory() as generated:
                generate_tests(testgen, samples, Path(generated), values.only)
                add(
                    "p4testgen's tests of p4c's samples",
                    lambda at: run_generated(Path(generated), at if at != switches["softswitch"] else None),
                )
    print(f"| suite | tests | {' | '.join(switches)} |")
    print("|---" * (2 + len(switches)) + "|")
    for suite in suites:
        print("\n".join(suite.rows()))


if __name__ == "__main__":
    main()
