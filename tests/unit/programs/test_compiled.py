"""Compiled programs follow their sources, and what softswitch compiles them to prefetches the lanes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from experiment.requirements import RunKind, check_design
from experiment.run_config import load_config
from foundation.designs import programs, registry
from foundation.designs.arms import arms_of
from foundation.designs.interface import Design
from foundation.designs.programs import (
    P4Error,
    P4Program,
    ProgramOutputs,
    compiled,
    programs_of,
    refresh,
    trees,
)
from foundation.designs.sources import is_current, newest_source_ns
from hotline_simulator.simulated_switch import loaded_config
from softswitch import ir
from softswitch.codegen.pipeline import build_module
from softswitch.codegen.prefetch_plan import plan_prefetches
from softswitch.interpreter import InterpretedPipeline
from softswitch.load import load_program
from softswitch.memory.layout import make_layout
from switch_harness.damage import DAMAGES, DIRECTORY, damage
from switch_harness.wording import says
from tests.harness import testnet

SMALL = """
#include <core.p4>
#include <v1model.p4>
#include "port.p4"
struct none_t {}
parser P(packet_in p, out none_t h, inout none_t m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control V(inout none_t h, inout none_t m) { apply {} }
control I(inout none_t h, inout none_t m, inout standard_metadata_t s) { apply { s.egress_spec = PORT; } }
control E(inout none_t h, inout none_t m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in none_t h) { apply {} }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""


@pytest.fixture
def small(tmp_path: Path) -> P4Program:
    """Return a program with an included file, as a design has it."""
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "small.p4").write_text(SMALL)
    (folder / "port.p4").write_text("#define PORT 3\n")
    return P4Program(folder / "small.p4", tmp_path / "compiled" / "small")


@pytest.fixture
def other(tmp_path: Path) -> P4Program:
    """Return another compiled program of the same name, all of whose files differ."""
    folder = tmp_path / "elsewhere" / "small"
    folder.mkdir(parents=True)
    table = "action nothing() {} table t { actions = { nothing; } default_action = nothing; }"
    (folder / "small.p4").write_text(SMALL.replace("apply { s.", f"{table} apply {{ t.apply(); s."))
    (folder / "port.p4").write_text("#define PORT 4\n")
    program = P4Program(folder / "small.p4", folder.parent / "compiled" / "small")
    refresh(program)
    return program


@pytest.mark.parametrize("program", [each for tree in trees() for each in programs_of(tree)], ids=str)
def test_the_compiled_programs_equal_the_output_of_the_compiler(program: P4Program) -> None:
    made = compiled(program)
    assert program.json.read_bytes() == made.json
    assert program.p4info.read_text() == made.p4info


def test_an_edit_of_an_included_file_changes_the_outputs_at_the_next_refresh(small: P4Program) -> None:
    assert refresh(small) and not refresh(small)
    before = small.json.read_bytes()
    (small.source.parent / "port.p4").write_text("#define PORT 4\n")
    assert refresh(small) and not refresh(small)
    assert [port_of(data) for data in (before, small.json.read_bytes())] == [3, 4]


def port_of(data: bytes) -> int:
    """Return the port to which the small program sends all frames."""
    [output] = InterpretedPipeline(load_program(data)).process(1, bytes(60), 0, 0)
    return output.port


def test_a_design_is_compiled_when_found_unless_the_newest_source_has_the_recorded_time(
    small: P4Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit of a source may make the newest one newer, and an older copy of a source makes it older."""
    refreshed: list[Path] = []
    monkeypatch.setattr(registry, "refresh_output", refreshed.append)
    newest_ns = max(newest_source_ns(small.source), time.time_ns()) + 10**9  # later than of all other sources
    os.utime(small.source, ns=(newest_ns, newest_ns))
    refresh(small)
    for age_ns, expected in ((0, []), (10**9, [small.json]), (-(10**6), [small.json])):
        os.utime(small.source, ns=(newest_ns + age_ns, newest_ns + age_ns))
        find_again(small)
        assert refreshed == expected
        refreshed.clear()


def find_again(program: P4Program) -> None:
    """Do what a new process does that finds a design."""
    registry.compile_if_changed.cache_clear()
    registry.compile_if_changed(program.json)
    registry.compile_if_changed.cache_clear()


def cached_files(program: P4Program) -> list[Path]:
    """Return all files that a compilation leaves beside a source."""
    return sorted(program.json.parent.iterdir())


@pytest.mark.parametrize("way", sorted({*DAMAGES} - {DIRECTORY}))
def test_each_damaged_file_of_a_compiled_program_is_compiled_again(
    small: P4Program, other: P4Program, way: str
) -> None:
    """The file's time, which is that of the undamaged file, tells nothing."""
    refresh(small)
    contents = {file: file.read_bytes() for file in cached_files(small)}
    assert {small.json, small.p4info} <= contents.keys()
    for file, other_file in zip(contents, cached_files(other), strict=True):
        assert is_current(small.json, small.source)
        time_ns = file.stat().st_mtime_ns
        damage(file, way, other_file.read_bytes())
        if file.exists():
            os.utime(file, ns=(time_ns, time_ns))
        assert not is_current(small.json, small.source), file
        find_again(small)
        assert {each: each.read_bytes() for each in cached_files(small)} == contents, file


def test_a_folder_in_the_place_of_a_compiled_file_is_an_error_that_names_the_folder(
    small: P4Program,
) -> None:
    refresh(small)
    for file in (small.json, small.p4info):
        damage(file, DIRECTORY, b"")
        with pytest.raises(P4Error, match=f"^{re.escape(str(file))} cannot be written: Is a directory$"):
            find_again(small)
        shutil.rmtree(file)
        find_again(small)
        assert is_current(small.json, small.source)


def test_an_edit_during_a_compilation_is_compiled_by_the_next_process(
    small: P4Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, compile_one = small.source.parent / "port.p4", programs.compiled

    def compile_and_edit(program: P4Program) -> ProgramOutputs:
        made = compile_one(program)
        port.write_text("#define PORT 4\n")
        later = newest_source_ns(small.source) + 10**9  # whatever the clock's resolution
        os.utime(port, ns=(later, later))
        return made

    with monkeypatch.context() as patched:
        patched.setattr(programs, "compiled", compile_and_edit)
        refresh(small)
    registry.compile_if_changed.cache_clear()
    registry.compile_if_changed(small.json)
    registry.compile_if_changed.cache_clear()
    assert port_of(small.json.read_bytes()) == 4


def described(program: Path) -> Design:
    return replace(registry.design("none"), program=program)


def test_a_design_may_name_a_source_and_has_the_output_beside_the_source(small: P4Program) -> None:
    found = described(small.source)
    assert found.program == small.source.parent / "compiled" / "small.json"
    assert found.p4info == small.source.parent / "compiled" / "small.p4info.txtpb"
    assert replace(found, name="other").program == found.program
    registry.compile_if_changed(found.program)
    assert port_of(found.program.read_bytes()) == 3


def test_the_simulated_switch_of_an_edited_source_runs_the_edited_source(small: P4Program) -> None:
    for port in (3, 4):
        (small.source.parent / "port.p4").write_text(f"#define PORT {port}\n")
        registry.compile_if_changed.cache_clear()
        loaded_config.cache_clear()
        found = loaded_config(described(small.source)).program
        [output] = InterpretedPipeline(found).process(1, bytes(60), 0, 0)
        assert output.port == port
    registry.compile_if_changed.cache_clear()
    loaded_config.cache_clear()


def test_the_cache_has_the_output_of_a_source_in_a_folder_that_cannot_be_written(
    small: P4Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write everywhere, so the question is answered for it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    access, folder = os.access, small.source.parent
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != folder and access(path, mode))
    found = described(small.source)
    assert found.program.is_relative_to(tmp_path / "cache") and not (folder / "compiled").exists()
    registry.compile_if_changed(found.program)
    assert port_of(found.program.read_bytes()) == 3 and found.p4info.is_file()
    other = folder.parent / "other"
    folder.rename(other)
    assert described(other / "small.p4").program != found.program


def test_arms_and_settings_are_read_while_a_program_has_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Help, status and reports of earlier runs need no program; a run is refused."""

    def fail(_program: Path) -> None:
        raise P4Error("hotset.p4 cannot be compiled")

    monkeypatch.setattr(registry, "refresh_output", fail)
    monkeypatch.setattr(registry, "is_current", lambda *_: False)
    registry.compile_if_changed.cache_clear()
    assert [arm.name for arm in arms_of("hotset")] and load_config([]).design == "hotset"
    for find in (registry.design, lambda name: check_design(name, RunKind.REAL)):
        with pytest.raises(P4Error):
            find("hotset")
    registry.compile_if_changed.cache_clear()


def test_an_error_of_a_program_names_its_place_and_keeps_the_outputs(small: P4Program) -> None:
    refresh(small)
    before = small.json.read_bytes()
    (small.source.parent / "port.p4").write_text("#define PORT 3 +\n")
    with pytest.raises(P4Error) as error:
        refresh(small)
    assert says(str(error.value), "small.p4:10:102")
    assert small.json.read_bytes() == before


def test_an_edit_of_a_source_reaches_the_next_command_in_another_process(small: P4Program) -> None:
    """A design in a folder of its own, as DESIGN= takes it."""
    refresh(small)
    (small.source.parent / "port.p4").write_text("#define PORT 5\n")
    code = "import sys, pathlib; from foundation.designs import registry; "
    code += "registry.compile_if_changed(pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, str(small.json)], check=True)
    assert port_of(small.json.read_bytes()) == 5


def test_all_lanes_of_the_hotset_program_are_prefetched_at_the_first_lane() -> None:
    ours = testnet.program()
    [lookups] = plan_prefetches(ours, ours.ingress).values()
    lanes = [f"HotlineIngress.lookup_{lane:02d}.hot_params" for lane in range(32)]
    assert [each.table.name for each in lookups] == lanes
    keys = ours.stacks[next(i for i, stack in enumerate(ours.stacks) if stack.name == "keys")]
    assert [each.key[2].source for each in lookups] == [ir.FieldRef(header, 0) for header in keys.headers]
    module, _ = build_module(ours, make_layout(ours))
    assert str(module).count('call void @"llvm.prefetch') == 1
