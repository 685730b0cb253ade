"""A study's figures: shares against sizes, moves against shares, and shares over time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.figures.model import DASHES, Axis, Figure, Panel, Series, colour_of
from hotline_policies.results import PolicyOutcome, Study
from hotline_policies.rules import BY_NAME

SHOWN_SIZE = 20_000
"""Size at which shares are drawn over time: the hot set of Pan et al. Fig. 10."""
_COLOUR_COUNT = 7  # colours of `colour_of` without its grey, which would look like that of random
_OPTIMUM = "belady"
_BOUND_COLOURS = {_OPTIMUM: "#d6278c", "random": "#9a9a9a"}
_MIN_MOVES = 0.001  # drawn on a logarithmic axis for a policy without moves


def shown_size(study: Study) -> int:
    sizes = study.settings.sizes
    return max((size for size in sizes if size <= SHOWN_SIZE), default=sizes[0])


def figures_of(study: Study) -> list[Figure]:
    shares = [_shares(study, "updates"), _moves(study), _over_time(study)]
    return [*shares, _shares(study, "pulls")] if study.facts.pulls else shares


def _series(
    study: Study, outcomes: Sequence[PolicyOutcome], x: Sequence[float], y: Sequence[float]
) -> Series:
    name = outcomes[0].policy
    policy_index = list(dict.fromkeys([*BY_NAME, *study.by_policy])).index(name)
    colour = _BOUND_COLOURS.get(name) or colour_of("", policy_index % _COLOUR_COUNT)
    dash = 0 if name == _OPTIMUM else policy_index // _COLOUR_COUNT % len(DASHES)
    return Series(outcomes[0].title, np.array(x, np.float64), np.array(y, np.float64), colour, dash)


def _shares(study: Study, kind: str) -> Figure:
    series = [
        _series(study, outcomes, [each.size for each in outcomes], [_share(each, kind) for each in outcomes])
        for outcomes in study.by_policy.values()
    ]
    return Figure(
        f"policies-{kind}",
        f"{kind.capitalize()} that hit, against the number of keys in the switch",
        Axis("keys in the switch", is_log=True),
        Axis(f"share of the {kind} that hit", is_share=True),
        [Panel("", series)],
        kind="points" if len(study.settings.sizes) == 1 else "lines",
        caption="The highest curve is Belady's optimum, which knows the future: no policy that admits a key "
        "at one of its accesses has more hits. The lowest is a random set of keys.",
    )


def _share(outcome: PolicyOutcome, kind: str) -> float:
    return outcome.pull_share or 0.0 if kind == "pulls" else outcome.share


def _moves(study: Study) -> Figure:
    series = [
        _series(
            study,
            outcomes,
            [max(each.moves_per_thousand, _MIN_MOVES) for each in outcomes],
            [each.share for each in outcomes],
        )
        for outcomes in study.by_policy.values()
    ]
    return Figure(
        "policies-moves",
        "Share of the updates that hit, against installs and evictions",
        Axis("moves per 1,000 updates", is_log=True),
        Axis("share of the updates that hit", is_share=True),
        [Panel("", series)],
        kind="points",
        caption="Each curve is a policy, each point a size. Policies without moves are drawn at "
        f"{_MIN_MOVES}.",
    )


def _over_time(study: Study) -> Figure:
    size, facts = shown_size(study), study.facts
    first_scored_step, bins = facts.steps - facts.scored_steps, len(next(iter(study.outcomes)).over_time)
    middles = [first_scored_step + (index + 0.5) * facts.scored_steps / bins for index in range(bins)]
    series = [_series(study, [outcome], middles, outcome.over_time) for outcome in study.at(size).values()]
    return Figure(
        "policies-time",
        f"Updates that hit over time, with {size:,} keys",
        Axis("step of all workers"),
        Axis("share of the updates that hit", is_share=True),
        [Panel("", series)],
        caption="The figure shows the scored part of the log; fixed sets were selected from the part before "
        "it. The optimum starts with the keys that will be needed first.",
    )
