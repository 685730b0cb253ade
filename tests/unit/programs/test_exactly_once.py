"""On random schedules of network and controller, PSs and switch hold the sums of all pushes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosts.succession import PredecessorPush
from softswitch.interpreter import InterpretedPipeline
from switch_harness.effort import examples
from tests.harness.faulty_loop import MS
from tests.harness.switches import BrokenSwitch, EveryTurnIsNew, PipelineSwitch, TodaysHits
from tests.harness.testbed import Testbed
from tests.harness.testnet import new_switch, program

SPARSE = np.sort(np.random.default_rng(4).integers(0, 2**63, 40, dtype=np.uint64) * np.uint64(2))


def play(network: Testbed, stimuli: int) -> None:
    """Play a random schedule; mostly frames arrive."""
    random = network.random
    for _ in range(stimuli):
        choice = random.random()
        worker = random.randrange(len(network.workers))
        if choice < 0.80:
            network.deliver(random.getrandbits(30))
        elif choice < 0.90:
            network.begin(worker)
            network.transmit()
        elif choice < 0.94:
            network.pass_time(random.choice([1, 30, 200]) * MS)
        elif choice < 0.97:
            network.start_move()
        elif choice < 0.98:
            network.hint(worker)
        elif choice < 0.985:
            network.restart(worker)
        elif choice < 0.992:
            network.succeed(worker)
        else:
            network.command()


def played(switch: PipelineSwitch, seed: int, stimuli: int) -> Testbed:
    random = Random(seed)
    network = Testbed(
        switch,
        random,
        loss=random.choice([0.0, 0.05, 0.3]),
        doubling=random.choice([0.0, 0.05, 0.5]),
        proxy=random.random() < 0.5,
        window=random.choice([2, 8, 64]),
        sparse=random.choice([None, SPARSE]),
    )
    play(network, stimuli)
    network.quiesce()
    assert not any(core.malformed for core in network.cores())
    return network


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 2**32))
def test_the_compiled_p4_program_adds_every_push_once(seed: int) -> None:
    played(PipelineSwitch(new_switch()), seed, 1500).check()


@settings(max_examples=examples(3))
@given(seed=st.integers(0, 2**32))
def test_the_interpreted_p4_program_adds_every_push_once(seed: int) -> None:
    played(PipelineSwitch(InterpretedPipeline(program())), seed, 400).check()


@pytest.mark.parametrize("broken", [TodaysHits, EveryTurnIsNew])
def test_a_broken_rule_is_noticed(broken: type[BrokenSwitch]) -> None:
    with pytest.raises(AssertionError, match=r"too much|come to rest"):
        for seed in range(4, 60):  # with the first seeds, a net takes half a minute until it does not rest
            played(broken(new_switch()), seed, 800).check()


def forget_requests(push: PredecessorPush) -> None:
    """Take the requests without an answer for such that were never sent."""
    push.requests.clear()


def forget_remainder(push: PredecessorPush) -> None:
    """Close the push when its requests have answers."""
    end = push.end

    def end_without_remainder() -> None:
        end()
        if push._push is not None:
            push._push.close()

    vars(push)["end"] = end_without_remainder


def take_answers_for_granted(push: PredecessorPush) -> None:
    """Mark the rows of all requests as added, also those that an answer refuses."""
    note = push._note
    vars(push)["_note"] = lambda request, answer: note(request, answer._replace(refused=0))


@pytest.mark.parametrize("mutate", [forget_requests, forget_remainder, take_answers_for_granted])
def test_a_successor_that_breaks_a_rule_is_noticed(
    mutate: Callable[[PredecessorPush], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    make = PredecessorPush.__init__

    def make_mutant(push: PredecessorPush, *arguments: Any) -> None:
        make(push, *arguments)
        mutate(push)

    monkeypatch.setattr(PredecessorPush, "__init__", make_mutant)
    monkeypatch.setattr(Testbed, "restart", Testbed.succeed)
    with pytest.raises(AssertionError, match=r"too much|a push is lost"):
        for seed in range(60):
            played(PipelineSwitch(new_switch()), seed, 800).check()
