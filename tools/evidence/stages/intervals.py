"""How often a difference is claimed, and what intervals cover: the tables of docs/intervals.md."""

from __future__ import annotations

from pathlib import Path

from tools.bench.agreement import Agreement, Uneven
from tools.bench.intervals import TRIALS, Claimed
from tools.evidence.result import Table, make_table
from tools.evidence.stage import Stage, json_output, typed

_STEP = typed("trials", "python -m tools.bench.intervals --claims --json")
_AGREEMENT = typed("agreement", "python -m tools.bench.agreement --json")
_SHARE = f"share of {TRIALS:,} generated trials"


def tables(folder: Path) -> dict[str, Table]:
    claimed = [Claimed(**row) for row in json_output(folder, _STEP.name)]
    effects = sorted({each.effect for each in claimed})
    shares = {(each.blocks, each.rounds, each.effect): each for each in claimed}
    rules = {"by the interval": "by_interval", "by the rule": "by_rule"}
    return {
        "claims": make_table(
            "how often a difference is claimed",
            _SHARE,
            ("blocks", "rounds"),
            {f"{_effect(effect)}, {rule}": "{:.1f} %" for effect in effects for rule in rules},
            {
                (blocks, f"{rounds}"): [
                    100 * getattr(shares[blocks, rounds, effect], field)
                    for effect in effects
                    for field in rules.values()
                ]
                for blocks, rounds in dict.fromkeys((each.blocks, each.rounds) for each in claimed)
            },
        ),
        **_agreement_tables(folder),
    }


def _agreement_tables(folder: Path) -> dict[str, Table]:
    found = json_output(folder, _AGREEMENT.name)
    unevens = [Uneven(**row) for row in found["uneven"]]
    agreements = [Agreement(**row) for row in found["agreement"]]
    return {
        "uneven": make_table(
            "intervals that contain a number, if only the arm's blocks stall",
            _SHARE,
            ("blocks that stall", "rounds"),
            dict.fromkeys(("the mean, which is printed", "the median"), "{:.1f} %"),
            {
                (f"{100 * each.stalled:g} %", f"{each.rounds}"): [100 * each.of_mean, 100 * each.of_median]
                for each in unevens
            },
        ),
        "agreement": make_table(
            "pairs of runs whose estimates lie within each other's bounds",
            _SHARE,
            ("blocks", "rounds"),
            dict.fromkeys(("within the bounds", "within bounds × 1.41"), "{:.1f} %"),
            {
                (each.blocks, f"{each.rounds}"): [100 * each.within, 100 * each.within_wider]
                for each in agreements
            },
        ),
    }


def _effect(effect: float) -> str:
    return f"{effect:+.0%}".replace("%", " %") if effect else "no difference"


INTERVALS = Stage(
    name="intervals",
    minutes=4,
    results=("claims", "uneven", "agreement"),
    steps=(_STEP, _AGREEMENT),
    tables=tables,
    modules=("tools.bench.intervals", "tools.bench.agreement"),
    seeds=(1,),
)
