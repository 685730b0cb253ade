"""Findings of a study in sentences: claims of Pan et al. §4 on random keys and LRU, with a log's numbers."""

from __future__ import annotations

from collections.abc import Iterator

from foundation.text import pluralize
from hotline_policies.figures import shown_size
from hotline_policies.results import PolicyOutcome, Study

_MIN_LEAD = 0.01  # lead in share of hits for which a policy is preferred to a fixed top-k


def headline(study: Study) -> str:
    outcomes, size = study.at(shown_size(study)), shown_size(study)
    if study.facts.keys <= size:
        return f"All {study.facts.keys:,} keys of the log fit into the {size:,} slots: none is ever evicted."
    feasible = [each for each in outcomes.values() if _is_feasible(each)]
    if not feasible:
        return "No policy that was studied can be followed by the control plane."
    best_outcome = max(feasible, key=lambda each: each.share)
    optimum = outcomes.get("belady")
    optimum_text = "" if optimum is None else f"; the optimum is {optimum.share:.1%}"
    title = f"{best_outcome.title[:1].upper()}{best_outcome.title[1:]}"
    return f"{title}: {best_outcome.share:.1%} of the updates hit{optimum_text}."


def _is_feasible(outcome: PolicyOutcome) -> bool:
    return not outcome.is_bound and outcome.follows is not False


def findings(study: Study) -> Iterator[str]:
    if study.facts.period == 1:
        yield (
            "A period is one step, and a step has each key once: first come, which clears its slots after "
            "each period, cannot hit."
        )
    outcomes = study.at(shown_size(study))
    for each in outcomes.values():
        if each.is_bound and each.known_steps:
            yield (
                f"{each.title.capitalize()} knows the next {each.known_steps:,} mini-batches, and so all "
                f"{study.facts.scored_steps:,} that are scored here: like the optimum, it is a bound and no "
                "alternative."
            )
    random, lru, top_k, optimum = (outcomes.get(name) for name in ("random", "lru", "top-k", "belady"))
    if random is not None:
        comparison = "" if top_k is None else f"; with the top-k of the first part {top_k.share:.1%}"
        yield f"With random keys {random.share:.1%} of the updates hit{comparison}."
    if lru is not None:
        yield f"LRU misses {1 - lru.share:.1%}, with {lru.moves_per_thousand:,.0f} moves per 1,000 updates."
    if top_k is not None and optimum is not None and optimum.share:
        yield f"A fixed top-k has {top_k.share / optimum.share:.0%} of the optimum's hits."
    if top_k is None:
        return
    if study.facts.keys <= shown_size(study):
        steps = pluralize(study.training_steps, "step")
        yield (
            f"Load all {study.facts.keys:,} keys: the {top_k.updates - top_k.hits:,} updates that the fixed "
            f"top-k misses are of keys without an update in the first {steps}."
        )
        return
    better_outcomes = [
        each for each in outcomes.values() if _is_feasible(each) and each.share > top_k.share + _MIN_LEAD
    ]
    if better_outcomes:
        best_outcome = max(better_outcomes, key=lambda each: each.share)
        yield (
            f"A fixed top-k is the wrong choice here: {best_outcome.title} has "
            f"{100 * (best_outcome.share - top_k.share):.1f} percentage points more hits, and the control "
            "plane can follow it."
        )
    else:
        yield (
            "A fixed top-k is the right choice here: no policy that the control plane can follow has a "
            "percentage point more hits."
        )
