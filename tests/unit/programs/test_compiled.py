"""The compiled programs are those of the sources, and the compiler prefetches what it should."""

from __future__ import annotations

from pathlib import Path

import pytest

from softswitch import ir
from softswitch.codegen.pipeline import build_module
from softswitch.codegen.prefetch_plan import plan_prefetches
from softswitch.memory.layout import make_layout
from tests.harness import testnet
from tools.scripts import p4


@pytest.mark.parametrize("tree", [*p4.trees()], ids=lambda tree: str(tree.relative_to(p4.ROOT)))
def test_the_compiled_programs_match_the_digests_of_their_sources(tree: Path) -> None:
    """`make p4` compiles what has changed, and writes the digests of the sources."""
    assert p4.sources_of(tree) == p4.recorded_sources(tree) != {}
    for program in p4.programs_of(tree):
        assert program.output.with_suffix(".json").is_file(), program
        assert program.output.with_suffix(".p4info.txtpb").is_file(), program


def test_a_change_compiles_only_the_programs_that_include_the_changed_file() -> None:
    programs = [program for tree in p4.trees() for program in p4.programs_of(tree)]
    changed = p4.changed_sources()
    assert not any(p4.needs_compiling(program, changed) for program in programs)

    def compiled_after(source: str) -> set[str]:
        return {each.source.stem for each in programs if p4.needs_compiling(each, {p4.ROOT / source})}

    everywhere = compiled_after("p4src/common/headers.p4")
    assert everywhere >= {"hotset", "collect", "none", "atp", "exact", "switchml", "hotline_16", "tofino_32"}
    assert compiled_after("packages/allreduce/p4src/atp/claim.p4") == {"atp"}
    assert compiled_after("p4src/hotset/lane_lookup.p4") == {"hotset", "collect", "hotline_16", "hotline_64"}
    assert compiled_after("packages/softswitch/tests/programs/l3.p4") == {"l3"}


def test_all_lanes_of_the_hotset_program_are_prefetched_at_the_first_lane() -> None:
    ours = testnet.program()
    [lookups] = plan_prefetches(ours, ours.ingress).values()
    lanes = [f"HotlineIngress.lookup_{lane:02d}.hot_params" for lane in range(32)]
    assert [each.table.name for each in lookups] == lanes
    keys = ours.stacks[next(i for i, stack in enumerate(ours.stacks) if stack.name == "keys")]
    assert [each.key[2].source for each in lookups] == [ir.FieldRef(header, 0) for header in keys.headers]
    module, _ = build_module(ours, make_layout(ours))
    assert str(module).count('call void @"llvm.prefetch') == 1
