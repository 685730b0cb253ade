"""How often a difference is claimed: the table of docs/intervals.md."""

from __future__ import annotations

from pathlib import Path

from tools.bench.intervals import TRIALS, Claimed
from tools.evidence.result import Table, make_table
from tools.evidence.stage import Stage, json_output, typed

_STEP = typed("trials", "python -m tools.bench.intervals --claims --json")


def tables(folder: Path) -> dict[str, Table]:
    claimed = [Claimed(**row) for row in json_output(folder, _STEP.name)]
    effects = sorted({each.effect for each in claimed})
    shares = {(each.blocks, each.rounds, each.effect): each for each in claimed}
    rules = {"by the interval": "by_interval", "by the rule": "by_rule"}
    return {
        "claims": make_table(
            "how often a difference is claimed",
            f"share of {TRIALS:,} generated trials",
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
        )
    }


def _effect(effect: float) -> str:
    return f"{effect:+.0%}".replace("%", " %") if effect else "no difference"


INTERVALS = Stage(
    name="intervals",
    minutes=3,
    results=("claims",),
    steps=(_STEP,),
    tables=tables,
    modules=("tools.bench.intervals",),
    seeds=(1,),
)
