"""A controller reads any register array of a design's program, as the pipeline has it."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from controller.controller import Controller
from controller.errors import PipelineError, RegisterError
from controller.schemas import schema_of
from foundation.designs.registry import design
from switch_harness.wording import mentions
from tests.harness.livenet import JOB, KEYS, LiveNet

T = TypeVar("T")
ONCE = "examples.tutorial.once"
SIZES = {"HotlineIngress.turns": 65_536, "HotlineIngress.bank_31.values_a": 4_096}
TURNS = "register HotlineIngress.turns"
CELLS = {ONCE: "HotlineIngress.turns", "hotset": "HotlineIngress.bank_31.values_a"}


def with_controller(
    name: str, action: Callable[[LiveNet, Controller], Awaitable[T]], commits: bool = True
) -> T:
    async def run() -> T:
        async with LiveNet(JOB, KEYS) as net:
            if commits:
                async with Controller(net.address, design=name) as first:
                    await first.commit_pipeline()
            async with Controller(net.address, design=name, primary=False) as controller:
                return await action(net, controller)

    return asyncio.run(run())


@pytest.mark.parametrize("name", CELLS)
def test_read_cells_equal_the_cells_of_the_pipeline(name: str) -> None:
    """Ranges: all, the first and last cells, none, and more than one request has room for."""
    register, rng = CELLS[name], random.Random(name)
    size = SIZES[register]
    ranges = [(0, None), (0, 1), (size - 1, 1), (size - 1, None), (7, 0), (3, 1_500), (size, None)]

    async def act(net: LiveNet, controller: Controller) -> None:
        pipeline: Any = net.pipeline
        for index in (0, size - 1, *rng.sample(range(size), 100)):
            pipeline.cells.write_register(register, index, rng.getrandbits(32))
        for first, count in ranges:
            stop = size if count is None else first + count
            expected = pipeline.cells.read_register(register, first, stop)
            assert await controller.read_register(register, first, count) == list(expected)
        alias = (
            schema_of(design(name)).registers[register].alias
        )  # the shortest end that no other register has
        parts = register.split(".")
        for end in (".".join(parts[first:]) for first in range(len(parts))):
            if len(end) >= len(alias):
                assert len(await controller.read_register(end, 0, 5)) == 5
            else:
                with pytest.raises(RegisterError, match=re.escape(repr(end))):
                    await controller.read_register(end, 0, 5)

    with_controller(name, act)


def test_wide_cells_are_whole_numbers() -> None:
    async def act(net: LiveNet, controller: Controller) -> list[int]:
        pipeline: Any = net.pipeline
        pipeline.cells.write_register("HotlineIngress.exactly_once.cells", 1, 2**95 + 3)
        return await controller.read_register("cells", 0, 3)

    assert with_controller("hotset", act) == [0, 2**95 + 3, 0]


@pytest.mark.parametrize(
    ("name", "first", "count", "message"),
    [
        ("nothing", 0, None,
         "once.json: expected a register (HotlineIngress.turns, "
         "HotlineIngress.aggregate.sums), got 'nothing'"),
        ("turns", -1, 1, f"{TURNS}: expected cells from 0 to 65535, got -1 to -1"),
        ("turns", 65_530, 10, f"{TURNS}: expected cells from 0 to 65535, got 65530 to 65539"),
        ("turns", 5, -1, f"{TURNS}: expected cells from 0 to 65535, got 5 to 3"),
        ("turns", 65_537, None, f"{TURNS}: expected cells from 0 to 65535, got 65537 to 65535"),
    ],
)  # fmt: skip
def test_a_missing_register_or_cell_is_named(name: str, first: int, count: int | None, message: str) -> None:
    async def act(_net: LiveNet, controller: Controller) -> None:
        await controller.read_register(name, first, count)

    with pytest.raises(RegisterError) as refused:
        with_controller(ONCE, act)
    assert str(refused.value) == message


def test_registers_of_another_or_a_missing_pipeline_are_refused() -> None:
    async def of_another(net: LiveNet, _controller: Controller) -> None:
        async with Controller(net.address, primary=False) as hotset:
            await hotset.read_register("cells")

    async def of_none(_net: LiveNet, controller: Controller) -> None:
        await controller.read_register("turns")

    with pytest.raises(PipelineError, match=mentions("nothing", "changed")):
        with_controller(ONCE, of_another)
    with pytest.raises(PipelineError, match="has no pipeline"):
        with_controller(ONCE, of_none, commits=False)
