"""A study in words: what [DDL] §4 says of random keys and of LRU, with this log's numbers."""

from __future__ import annotations

from collections.abc import Iterator

from studies.policies.figures import shown_size
from studies.policies.results import Outcome, Study

_AHEAD = 0.01
"""Share by which a policy must be ahead to be called so."""


def headline(study: Study) -> str:
    """The best policy that can be made, against the optimum."""
    at = study.at(shown_size(study))
    made = [each for each in at.values() if not each.is_bound and each.follows is not False]
    if not made:
        return "No policy that was studied can be followed by the control plane."
    best = max(made, key=lambda each: each.share)
    optimum = at.get("belady")
    against = "" if optimum is None else f"; the optimum is {optimum.share:.1%}"
    return f"{_capital(best.title)}: {best.share:.1%} of the updates hit{against}."


def findings(study: Study) -> Iterator[str]:
    """One sentence each, of the policies that there are."""
    at = study.at(shown_size(study))
    chance, lru, top, optimum = (at.get(name) for name in ("random", "lru", "top-k", "belady"))
    if chance is not None:
        beside = "" if top is None else f"; with the top-k of the first part {top.share:.1%}"
        yield f"With random keys {chance.share:.1%} of the updates hit{beside}."
    if lru is not None:
        yield f"LRU misses {1 - lru.share:.1%}, with {lru.moves_per_thousand:,.0f} moves per 1,000 updates."
    if top is not None and optimum is not None and optimum.share:
        yield f"A fixed top-k has {top.share / optimum.share:.0%} of what the optimum has."
    if top is not None:
        yield from _of_drift(study, at, top)


def _of_drift(study: Study, at: dict[str, Outcome], top: Outcome) -> Iterator[str]:
    ahead = [
        each
        for each in at.values()
        if not each.is_bound and each.follows is not False and each.share > top.share + _AHEAD
    ]
    if ahead:
        best = max(ahead, key=lambda each: each.share)
        yield (
            f"A fixed top-k is the wrong choice here: {best.title} has "
            f"{100 * (best.share - top.share):.1f} points more, with moves that can be made."
        )
    else:
        yield "A fixed top-k is the right choice here: no policy whose moves can be made has a point more."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
