"""Which kills and joins of workers a run can make, and which designs go on without a worker."""

from __future__ import annotations

from typing import Any

import pytest

from experiment.errors import ConfigError
from experiment.run_config import Config, config_of
from switch_harness.wording import mentions


def test_kills_and_joins_are_in_the_order_of_rounds() -> None:
    config = Config(workers=8, after_death="continue", kill=("8@4", "3@1"), join=("3@4", "8@5"))
    assert [(each.worker, each.change, each.round) for each in config.worker_plan] == [
        ("worker-3", "died", 0),
        ("worker-8", "died", 3),
        ("worker-3", "joined", 3),
        ("worker-8", "joined", 4),
    ]
    assert len(Config(after_death="wait", kill=("1@1", "1@2")).worker_plan) == 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kill": ["1@1"]}, ["kill (1@1)", "after_death", "end", "wait"]),
        ({"kill": ["1"]}, ["kill (1)", "WORKER@ROUND"]),
        ({"kill": ["0@1"]}, ["kill (0@1)", "from 1 to 4"]),
        ({"kill": ["5@1"]}, ["kill (5@1)", "from 1 to 4"]),
        ({"kill": ["1@0"]}, ["kill (1@0)", "round from 1"]),
        ({"join": ["2@1"]}, ["join (2@1)", "killed in an earlier round"]),
        ({"kill": ["2@1"], "join": ["2@1"], "after_death": "continue"}, ["join (2@1)", "earlier"]),
        ({"kill": ["2@1"], "join": ["2@2"], "after_death": "wait"}, ["join (2@2)", "continue"]),
        ({"kill": ["2@1", "2@2"], "after_death": "continue"}, ["kill (2@2)", "alive"]),
        ({"workers": 1, "kill": ["1@1"], "after_death": "continue"}, ["kill (1@1)", "last"]),
        ({"after_death": "continue", "design": "switchml"}, ["continue", "switchml", "end"]),
        ({"after_death": "wait", "design": "ring"}, ["wait", "ring", "end"]),
        ({"after_death": "continue", "design": "exact"}, ["continue", "exact", "end"]),
        ({"after_death": "continue", "design": "atp"}, ["continue", "atp", "end"]),
        ({"after_death": "wait", "optimiser": "adam"}, ["wait", "adam", "end"]),
    ],
)
def test_an_impossible_setting_is_one_error_that_names_the_setting(
    settings: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(ConfigError, match=mentions(*words)):
        config_of(Config, settings)
