from __future__ import annotations

import json
from dataclasses import asdict

import click
from click.core import ParameterSource
from pydantic import Field

from controller.address import SwitchAddress
from controller.controller import Controller
from controller.hotset.choice import MAX_KEYS
from controller.hotset.follower import Follower, Period
from controller.hotset.follower import follow as periods_of
from controller.hotset.migrate import WAVE
from controller.hotset.rules import WINDOW, RuleName, RunningRule, start_rule
from controller.hotset.selection import MARGIN, SwapRule
from foundation.settings import JobId
from foundation.text import pluralize
from hotline.cli.common import json_option, one_line_errors, run_on_switch
from hotline.cli.fields import fills
from hotline.cli.options import ADDRESS, RULE


class FollowSettings(SwitchAddress):
    jobs: tuple[JobId, ...]
    """Id of the job; may be repeated."""
    top_k: int = Field(ge=1, le=MAX_KEYS)
    """Number of hot keys of each job."""
    period_s: float = Field(default=10.0, ge=0.2, le=86_400)
    """Length of a period in seconds."""
    rule: RuleName = WINDOW
    margin: float = Field(default=MARGIN, ge=1, le=1000)
    """With rule window: a key replaces another only if it is updated this many times as often."""
    max_moves: int = Field(default=WAVE, ge=1)  # by default as many keys as move at a time
    """With rule window: maximum number of replacements in a period."""
    periods: int | None = Field(default=None, ge=1)
    """Stop after this many periods."""

    @property
    def swap_rule(self) -> SwapRule:
        return SwapRule(self.top_k, self.margin, self.max_moves)


_OPTIONS_OF_WINDOW = {"margin": "--margin", "max_moves": "--max-moves"}


@click.command()
@fills(FollowSettings, "settings", address=ADDRESS, jobs={"names": ("--job",)}, rule=RULE)
@json_option
def follow(settings: FollowSettings, as_json: bool) -> None:
    """Keep the most updated keys of jobs in the switch.

    Training goes on meanwhile. At the end of each period the rule chooses the keys. By the rule window, keys
    that are updated more often replace others, if the difference exceeds the margin and random variation. At
    the beginning a set that is too small is filled from the updates that the servers have counted so far;
    another rule fills only an empty set. Prints one line, or with --json one object, for each period and job.

    A job gets the slots of its quota (`hotline quota`) at the end of the period in which it needs them. Slots
    that jobs need beyond their quotas are shared equally among the jobs of this command.

    Ends at Ctrl-C, or when another command becomes the switch's primary controller.
    """
    jobs, rule = settings.jobs, settings.rule
    _refuse_options_of_window(rule)
    follower: Follower | None = None
    rules: dict[int, SwapRule | RunningRule] = dict.fromkeys(jobs, settings.swap_rule)
    if rule != WINDOW:
        with one_line_errors():
            rules = {job: start_rule(rule, settings.top_k) for job in jobs}

    async def action(controller: Controller) -> None:
        nonlocal follower
        follower = Follower(controller, rules)
        period_number = 0
        async for job_periods in periods_of(follower, settings.period_s, settings.periods):
            for period in job_periods:
                line = _as_json(period_number, rule, period) if as_json else _describe(period_number, period)
                click.echo(line)
            period_number += 1

    def retry_hint() -> str | None:
        return "follow" if follower is not None and follower.is_moving else None

    run_on_switch(settings, action, retry_hint=retry_hint)


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
