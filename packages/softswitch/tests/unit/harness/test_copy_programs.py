"""Random programs with `inout` parameters use every primitive, and depend only on their seed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from softswitch.load import load_program
from switch_harness.copy_programs import compile_drawn, draw_program

PRIMITIVES = [
    "mark_to_drop(", "truncate(", "clone_preserving_field_list(", "resubmit_preserving_field_list(",
    "recirculate_preserving_field_list(", "hash(", "digest<", "log_msg(", ".read(", ".write(", ".count(",
    ".execute_meter(", ".push_front(", ".pop_front(", ".setValid(", ".setInvalid(", "exit;", "return;",
]  # fmt: skip


def test_equal_seeds_give_equal_programs() -> None:
    assert draw_program(3) == draw_program(3) != draw_program(4)


def test_all_primitives_are_drawn() -> None:
    text = "".join(map(draw_program, range(30)))
    assert [each for each in PRIMITIVES if each not in text] == []


@pytest.mark.skipif(shutil.which("p4c-bm2-ss") is None, reason="needs p4c-bm2-ss on the PATH")
@pytest.mark.parametrize("seed", range(1, 4))
def test_p4c_and_softswitch_accept_random_programs(seed: int, tmp_path: Path) -> None:
    program = compile_drawn(seed, tmp_path)
    load_program(program.with_suffix(".json").read_bytes())
