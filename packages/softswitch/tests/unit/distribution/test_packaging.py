"""The distribution: what it declares, contains and needs, and that it works when it is installed alone."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli
from finsy.proto import p4d, p4i, p4r, p4t, rpc_status
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from softswitch import __version__
from softswitch.p4runtime import messages
from switch_harness.namespaces import on_the_machines_network
from switch_harness.wording import says, says_in_one_line

ROOT = Path(__file__).parents[3]
PACKAGES = ROOT / "src"
SOURCES = sorted(PACKAGES.rglob("*.py"))
OURS = {"softswitch", "nativekit"}
PROGRAM = ROOT / "tests" / "programs" / "compiled" / "control"
SOURCE = ROOT / "tests" / "programs" / "l2.p4"
INCLUDED = PACKAGES / "softswitch" / "p4" / "include"
LAYERS = ["status", "codecs", "p4info", "entities", "control"]  # of p4runtime, the lowest first
INSTALLED_AS = {"grpc": "grpcio", "google": "protobuf"}
PYTHONS = os.environ.get("SOFTSWITCH_PYTHONS", sys.executable).split(os.pathsep)
"""Interpreters that the distribution is installed for."""

# Arguments: a compiled program, and the source of another one.
USE = """
import asyncio, contextlib, io, sys
from pathlib import Path
from google.protobuf import text_format
from softswitch import cli
from softswitch.compiled import CompiledPipeline
from softswitch.load import load_program
from softswitch.p4 import command
from softswitch.p4runtime.service import P4RuntimeServer
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.messages import p4i, p4r
from softswitch.pipeline import ActionCall, Change, EntryWrite
from softswitch.ports.loop import PortLoop
from softswitch.ports.options import PortOptions

for option in ("--version", "--help"):
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as printed:
        cli.command.main([option], prog_name="softswitch")
    assert "softswitch" in printed.getvalue()

program = Path(sys.argv[1])
p4info = text_format.Parse(program.with_suffix(".p4info.txtpb").read_text(), p4i.P4Info())
config = p4r.ForwardingPipelineConfig(
    p4info=p4info, p4_device_config=program.with_suffix(".json").read_bytes()
)
pipeline = ControlledPipeline(config, CompiledPipeline, lambda: 0).pipeline
forward = ActionCall("ControlIngress.forward_to", (2,))
pipeline.tables.write([EntryWrite(Change.INSERT, "ControlIngress.forward", (0x0B,), forward)])
frame = bytes.fromhex("00000000000b 00000000000a 0800") + bytes(46)
assert pipeline.process(1, frame, 0, 0) == [(2, frame)]


async def serve():
    with PortLoop({}, PortOptions(255)) as ports:
        server = P4RuntimeServer(1, ports, CompiledPipeline)
        server.pipelines.load(config)
        assert await server.start("127.0.0.1:0") > 0
        await server.stop()


asyncio.run(serve())

outputs = ["-o", "l2.json", "--p4runtime-files", "l2.p4info.txtpb"]
command.main([sys.argv[2], *outputs])
p4info = text_format.Parse(Path("l2.p4info.txtpb").read_text(), p4i.P4Info())
assert [table.preamble.name for table in p4info.tables] == ["L2Ingress.hosts"]
pipeline = CompiledPipeline(load_program(Path("l2.json").read_bytes()))
forward = ActionCall("L2Ingress.forward", (2,))
pipeline.tables.write([EntryWrite(Change.INSERT, "L2Ingress.hosts", (0x0B,), forward)])
assert pipeline.process(1, frame, 0, 0) == [(2, frame)]
print("used")
"""

# Argument: a network's file; prints how each subcommand ends that needs a package which is not there.
SUBCOMMANDS_ALONE = """
import json, sys
from softswitch import verbs

network = sys.argv[1]
endings = {}
for words in (["simulate", network], ["net", network], ["explain", network, "--from", "h1", "--to", "h2"]):
    sys.argv[1:] = words
    try:
        verbs.main()
    except SystemExit as end:
        endings[words[0]] = end.code
print(json.dumps(endings))
"""
SDIST = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
FORBID = """
import sys


class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in FORBIDDEN:
            raise ModuleNotFoundError(f"no {name} here", name=name)


sys.meta_path.insert(0, Forbidden())
"""
PROJECT: dict[str, Any] = tomli.loads((ROOT / "pyproject.toml").read_text())


def requirements() -> set[str]:
    return set(PROJECT["project"]["dependencies"])


def imported(source: Path) -> Iterator[str]:
    """The modules that a file imports, in full, whenever it does."""
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module is not None, source
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


# -- softswitch


def test_softswitch_imports_only_the_requirements_of_its_distribution() -> None:
    required = {name.partition(">")[0] for name in requirements()}
    tops = {(module.partition(".")[0], source) for source in SOURCES for module in imported(source)}
    others = {(top, source) for top, source in tops if top not in sys.stdlib_module_names | OURS}
    unknown = {(top, source) for top, source in others if INSTALLED_AS.get(top, top) not in required}
    assert unknown == {
        ("mininet", PACKAGES / "softswitch" / "emulation" / "mininet_names.py"),  # the distribution's
        ("finsy", PACKAGES / "softswitch" / "p4runtime" / "messages.py"),  # for type hints
        ("pynng", PACKAGES / "softswitch" / "frames" / "nanomsg.py"),  # the extra `nanomsg`
        ("pynng", PACKAGES / "softswitch" / "thrift" / "learning.py"),
        ("scapy", PACKAGES / "softswitch" / "network" / "host.py"),  # the extra `network`
        ("pytest", PACKAGES / "softswitch" / "testing" / "plugin.py"),  # which pytest itself imports
    }
    assert required == {INSTALLED_AS.get(top, top) for top, _ in others - unknown}


def test_imports_in_p4runtime_go_down() -> None:
    for source in (PACKAGES / "softswitch" / "p4runtime").rglob("*.py"):
        layer = source.relative_to(PACKAGES / "softswitch" / "p4runtime").parts[0].removesuffix(".py")
        if layer in LAYERS:
            above = {f"softswitch.p4runtime.{name}" for name in LAYERS[LAYERS.index(layer) + 1 :]}
            assert not above & set(imported(source)), source


def test_the_license_files_are_the_texts_of_the_declared_licenses() -> None:
    assert PROJECT["project"]["license"] == "Apache-2.0 OR GPL-2.0-or-later"
    texts = {file.stem: file.read_text() for file in (ROOT / "LICENSES").iterdir()}
    assert texts.keys() == {"Apache-2.0", "GPL-2.0-or-later"}
    assert "Apache License" in texts["Apache-2.0"]
    assert says(texts["GPL-2.0-or-later"], "GNU", "GENERAL", "PUBLIC", "LICENSE")


def test_the_distribution_contains_the_data_files() -> None:
    data = {
        file
        for package, names in PROJECT["tool"]["setuptools"]["package-data"].items()
        for name in names
        for file in PACKAGES.joinpath(*package.split(".")).glob(name)
    }
    included = {INCLUDED / "core.p4", INCLUDED / "v1model.p4"}
    assert data == {*PACKAGES.glob("*/py.typed"), messages.DESCRIPTORS_FILE, *included}
    others = {file for file in PACKAGES.rglob("*") if file.is_file() and file.suffix not in (".py", ".pyc")}
    assert {
        file for file in others if not {"__pycache__", "hotline_softswitch.egg-info"} & set(file.parts)
    } == data
    assert {file.parent.name for file in PACKAGES.glob("*/py.typed")} == OURS


def test_softswitch_runs_elsewhere_without_the_requirements_of_tests_and_bench(tmp_path: Path) -> None:
    extras = PROJECT["project"]["optional-dependencies"].values()
    forbidden = {name.partition(">")[0] for names in extras for name in names}
    forbidden |= {"foundation", "mininet", "scapy", "switch_bench", "switch_harness"}
    script = tmp_path / "use.py"
    script.write_text(f"FORBIDDEN = {sorted(forbidden)}\n{FORBID}\n{USE}")
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    source = shutil.copy(SOURCE, tmp_path)
    command = [sys.executable, str(script), str(PROGRAM), str(source)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "used\n"), done.stderr


@pytest.mark.parametrize(
    ("package", "command", "needing"),
    [
        ("scapy", "pip install 'hotline-softswitch[network]'", {"simulate", "net", "explain"}),
        ("mininet", "apt install mininet", {"net"}),
    ],
)
def test_subcommands_without_an_optional_package_name_the_command_of_its_installation(
    package: str, command: str, needing: set[str], tmp_path: Path
) -> None:
    network = tmp_path / "topology.json"
    hosts = {name: {"ip": f"10.0.0.{number}/24"} for number, name in enumerate(("h1", "h2"), 1)}
    switch = {"program": str(SOURCE)}
    links = [["h1", "s1-p1"], ["h2", "s1-p2"]]
    network.write_text(json.dumps({"hosts": hosts, "switches": {"s1": switch}, "links": links}))
    script = tmp_path / "use.py"
    script.write_text(f"FORBIDDEN = {[package]}\n{FORBID}\n{SUBCOMMANDS_ALONE}")
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    done = subprocess.run(
        [sys.executable, str(script), str(network)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    endings = json.loads(done.stdout.splitlines()[-1])
    for name in needing:
        assert says(str(endings[name]), f"softswitch {name}", package, command)
    assert not {name for name in endings.keys() - needing if command in str(endings[name])}


@pytest.mark.soak
@pytest.mark.parametrize("python", PYTHONS)
def test_the_sdist_and_its_wheel_work_in_a_new_environment(python: str, tmp_path: Path) -> None:
    """Needs a package index."""
    source = tmp_path / "softswitch"  # building leaves folders beside the sources
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    subprocess.run([python, "-m", "venv", tmp_path / "venv"], check=True)
    binaries = tmp_path / "venv" / "bin"
    install = [*on_the_machines_network(), str(binaries / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*install, *PROJECT["build-system"]["requires"]], check=True)
    subprocess.run([binaries / "python", "-c", SDIST, tmp_path], cwd=source, check=True)
    shutil.rmtree(source)
    [sdist] = tmp_path.glob("*.tar.gz")
    subprocess.run([*install, str(sdist)], check=True)  # pip makes a wheel of it
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    version = subprocess.run(
        [str(binaries / "softswitch"), "--version"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert says_in_one_line(version.stdout, "softswitch", __version__)
    command = [str(binaries / "python"), "-c", USE, str(PROGRAM), str(shutil.copy(SOURCE, tmp_path))]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "used\n"), done.stderr
    for absent in ("finsy", "mininet", "scapy", "analysis"):
        asked = subprocess.run([binaries / "python", "-c", f"import {absent}"], cwd=tmp_path, env=environment)
        assert asked.returncode != 0, absent


# -- P4Runtime's messages


def fields(message: Descriptor) -> dict[str, tuple[int, int]]:
    return {field.name: (field.number, field.type) for field in message.fields}


ADDED = {"ActionProfileActionSet": {"group_action": (5, FieldDescriptor.TYPE_MESSAGE)}}
"""What P4Runtime 1.6 has and finsy's messages lack."""


@pytest.mark.parametrize("module", ["p4d", "p4i", "p4r", "p4t", "rpc_status"])
def test_the_messages_equal_the_messages_of_p4runtime(module: str) -> None:
    expected = {"p4d": p4d, "p4i": p4i, "p4r": p4r, "p4t": p4t, "rpc_status": rpc_status}[module]
    ours = vars(getattr(messages, module))
    assert set(ours) == set(expected.DESCRIPTOR.message_types_by_name)
    for name, kind in ours.items():
        finsys = fields(getattr(expected, name).DESCRIPTOR)
        assert fields(kind.DESCRIPTOR) == finsys | ADDED.get(name, {}), name
        assert kind is not getattr(expected, name)


def test_the_messages_file_has_each_file_after_its_imports() -> None:
    known: set[str] = set()
    for file in FileDescriptorSet.FromString(messages.DESCRIPTORS_FILE.read_bytes()).file:
        assert set(file.dependency) <= known
        known.add(file.name)


def test_messages_of_other_libraries_are_converted() -> None:
    expected = p4r.Update(type=p4r.Update.MODIFY, entity=p4r.Entity(table_entry=p4r.TableEntry(table_id=7)))
    ours = messages.adopt(expected)
    assert type(ours) is messages.p4r.Update
    assert ours.SerializeToString() == expected.SerializeToString()
    assert messages.adopt(ours) == ours
