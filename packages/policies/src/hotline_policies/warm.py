"""Compile and cache all machine code of policies, by studying a log of eight steps (`make test`)."""

from __future__ import annotations

from dataclasses import replace

from hotline_policies.drift import half_life
from hotline_policies.log import make_log
from hotline_policies.miss_ratio.reuse import reuse_histograms
from hotline_policies.replay import replay
from hotline_policies.rules import POLICIES


def warm() -> None:
    log = replace(make_log([[1, 2], [1]] * 4), tables=("keys",))
    for spec in POLICIES:
        replay(log, spec, sizes=(1,), period=2)
    half_life(log)
    list(reuse_histograms([log.accesses], log.table_of, 1))
