from __future__ import annotations

import json
from dataclasses import asdict

import click
from click.core import ParameterSource

from controller.controller import Controller
from controller.hotset.choice import MAX_KEYS
from controller.hotset.follower import Follower, Period
from controller.hotset.follower import follow as periods_of
from controller.hotset.migrate import WAVE
from controller.hotset.rules import WINDOW, RunningRule, start_rule
from controller.hotset.selection import MARGIN, SwapRule
from foundation.text import pluralize
from hotline.cli.common import (
    Number,
    json_option,
    one_line_errors,
    rule_option,
    run_on_switch,
    switch_options,
)

_OPTIONS_OF_WINDOW = {"margin": "--margin", "max_moves": "--max-moves"}


@click.command()
@switch_options
@click.option(
    "--job",
    "jobs",
    type=click.IntRange(0, 0xFFFF),
    required=True,
    multiple=True,
    help="Id of the job; may be repeated.",
)
@click.option(
    "--top-k", type=click.IntRange(1, MAX_KEYS), required=True, help="Number of hot keys of each job."
)
@click.option(
    "--period-s",
    default=10.0,
    type=Number(0.2, 86_400),
    help="Length of a period in seconds.",
)
@rule_option(WINDOW, "Rule that chooses the keys after each period")
@click.option(
    "--margin", default=MARGIN, type=Number(1, 1000),
    help="With rule window: a key replaces another only if it is updated this many times as often.",
)  # fmt: skip
@click.option(
    "--max-moves",
    default=WAVE,  # as many keys as move at a time
    type=click.IntRange(min=1),
    help="With rule window: maximum number of replacements in a period.",
)
@click.option("--periods", type=click.IntRange(min=1), help="Stop after this many periods.")
@json_option
def follow(
    address: str, device_id: int, jobs: tuple[int, ...], top_k: int, period_s: float, rule: str,
    margin: float, max_moves: int, periods: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Keep the most updated keys of jobs in the switch.

    Training goes on meanwhile. At the end of each period the rule chooses the keys. By the rule window, keys
    that are updated more often replace others, if the difference exceeds the margin and random variation. At
    the beginning a set that is too small is filled from the updates that the servers have counted so far;
    another rule fills only an empty set. Prints one line, or with --json one object, for each period and job.

    A job gets the slots of its quota (`hotline quota`) at the end of the period in which it needs them. Slots
    that jobs need beyond their quotas are shared equally among the jobs of this command.

    Ends at Ctrl-C, or when another command becomes the switch's primary controller.
    """
    _refuse_options_of_window(rule)
    follower: Follower | None = None
    rules: dict[int, SwapRule | RunningRule] = dict.fromkeys(jobs, SwapRule(top_k, margin, max_moves))
    if rule != WINDOW:
        with one_line_errors():
            rules = {job: start_rule(rule, top_k) for job in jobs}

    async def action(controller: Controller) -> None:
        nonlocal follower
        follower = Follower(controller, rules)
        period_number = 0
        async for job_periods in periods_of(follower, period_s, periods):
            for period in job_periods:
                line = _as_json(period_number, rule, period) if as_json else _describe(period_number, period)
                click.echo(line)
            period_number += 1

    def retry_hint() -> str | None:
        return "follow" if follower is not None and follower.is_moving else None

    run_on_switch(address, device_id, action, retry_hint=retry_hint)


def _refuse_options_of_window(rule: str) -> None:
    context = click.get_current_context()
    for name, option in _OPTIONS_OF_WINDOW.items():
        if rule != WINDOW and context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"{option} belongs to rule {WINDOW}; rule {rule} has no such option")


def _as_json(period_number: int, rule: str, period: Period) -> str:
    return json.dumps({"period": period_number, "rule": rule} | asdict(period) | {"share": period.share})


def _describe(period_number: int, period: Period) -> str:
    keys = f"{period.keys_in:,} in, {period.keys_out:,} out: {pluralize(period.keys, 'key')}"
    parts = [f"{f'period {period_number}' if period_number else 'beginning'} of job {period.job}: {keys}"]
    if period.updates is not None:
        share = "" if period.share is None else f", {period.share:.1%} of them in the switch"
        parts.append(f"{pluralize(period.updates, 'update')}{share}")
    return "; ".join([*parts, f"took {period.seconds:.2f} s"])
