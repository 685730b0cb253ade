"""The compiled programs are those of the sources, and the compiler prefetches what it should."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from softswitch import ir
from softswitch.codegen.pipeline import build_module
from softswitch.codegen.prefetch_plan import plan_prefetches
from softswitch.memory.layout import make_layout
from tests.harness import testnet


@pytest.mark.parametrize("compiled", [testnet.COMPILED, testnet.FOR_64_LANES.parent])
def test_the_artefacts_are_of_these_sources(compiled: Path) -> None:
    """`make p4` writes the digest of the sources."""
    lines = (compiled / "sources.sha256").read_text().splitlines()
    recorded = {name: digest for digest, name in (line.split(maxsplit=1) for line in lines)}
    sources = {
        f"./{p.relative_to(compiled.parent)}": hashlib.sha256(p.read_bytes()).hexdigest()
        for p in compiled.parent.rglob("*.p4")
    }
    assert sources == recorded


def test_all_lanes_of_our_program_are_touched_at_the_first_in_one_loop() -> None:
    ours = testnet.program()
    [lookups] = plan_prefetches(ours, ours.ingress).values()
    lanes = [f"HotlineIngress.lookup_{lane:02d}.hot_params" for lane in range(32)]
    assert [each.table.name for each in lookups] == lanes
    keys = ours.stacks[next(i for i, stack in enumerate(ours.stacks) if stack.name == "keys")]
    assert [each.key[1].source for each in lookups] == [ir.FieldRef(header, 0) for header in keys.headers]
    module, _ = build_module(ours, make_layout(ours))
    assert str(module).count('call void @"llvm.prefetch') == 1
