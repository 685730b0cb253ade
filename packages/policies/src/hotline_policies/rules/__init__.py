"""The policies that are compared, and those of a rule of live hot sets that users name."""

from __future__ import annotations

from dataclasses import replace

from controller.hotset.rules import find_rule
from foundation.errors import DataError
from hotline_policies.policy import PolicySpec
from hotline_policies.rules.counters import HEAVY_KEEPER, SPACE_SAVING
from hotline_policies.rules.frequency import LFU, TINYLFU, W_TINYLFU
from hotline_policies.rules.future import BELADY, LOOK_AHEAD
from hotline_policies.rules.hashed import FIRST_COME, P4_LRU
from hotline_policies.rules.queues import FIFO, S3_FIFO, SIEVE
from hotline_policies.rules.recency import ARC, LIRS, LRU
from hotline_policies.rules.selected import (
    FOLLOW_SUFFIX,
    LOAD_SUFFIX,
    RANDOM,
    TOP_K,
    WINDOW_POLICY,
    spec_of_follow,
    spec_of_load,
)

POLICIES: tuple[PolicySpec, ...] = (
    BELADY, LOOK_AHEAD, TOP_K, WINDOW_POLICY, TINYLFU, W_TINYLFU, S3_FIFO, SIEVE, ARC, LIRS, LFU, LRU, FIFO,
    P4_LRU, SPACE_SAVING, HEAVY_KEEPER, FIRST_COME, RANDOM,
)  # fmt: skip
BY_NAME = {spec.name: spec for spec in POLICIES}
_SPEC_BY_SUFFIX = {LOAD_SUFFIX: spec_of_load, FOLLOW_SUFFIX: spec_of_follow}


def names_of_rule(reference: str) -> tuple[str, ...]:
    """Return the names of the policies of a rule of live hot sets: loaded, followed, and itself if it is one.

    Raises `RuleError` if there is no such rule.
    """
    rule = find_rule(reference)
    names = tuple(f"{reference}{suffix}" for suffix in _SPEC_BY_SUFFIX)
    return (reference, *names) if isinstance(rule, PolicySpec) else names


def spec_named(name: str) -> PolicySpec:
    """Return a policy: a built-in one, `RULE-load` or `RULE-follow`, or a rule that is a `PolicySpec`.

    Raises `DataError`, and `RuleError` if there is no such rule.
    """
    if name in BY_NAME:
        return BY_NAME[name]
    for suffix, make_spec in _SPEC_BY_SUFFIX.items():
        if name.endswith(suffix):
            reference = name.removesuffix(suffix)
            return make_spec(reference, find_rule(reference))
    rule = find_rule(name) if {".", ":"} & set(name) else None
    if isinstance(rule, PolicySpec):
        return replace(rule, name=name, title=name)
    raise DataError(
        f"{name!r} is no policy; expected one of {', '.join(BY_NAME)}, or a rule's name and "
        f"{' or '.join(_SPEC_BY_SUFFIX)}"
    )


def rule_of(spec: PolicySpec) -> str | None:
    """Return the reference of the rule that users have named for a policy; None for a built-in policy."""
    if spec.name in BY_NAME:
        return None
    suffix = next((each for each in _SPEC_BY_SUFFIX if spec.name.endswith(each)), "")
    return spec.name.removesuffix(suffix)
