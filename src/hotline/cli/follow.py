from __future__ import annotations

import json
from dataclasses import asdict

import click

from controller.controller import Controller
from controller.hotset.choice import MAX_KEYS
from controller.hotset.follower import Follower, Period
from controller.hotset.follower import follow as periods_of
from controller.hotset.migrate import WAVE
from controller.hotset.selection import MARGIN, Rule
from foundation.text import pluralize
from hotline.cli.common import Number, json_option, run_on_switch, switch_options


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
@click.option(
    "--margin", default=MARGIN, type=Number(1, 1000),
    help="A key replaces another only if it is updated this many times as often.",
)  # fmt: skip
@click.option(
    "--max-moves",
    default=WAVE,  # as many keys as move at a time
    type=click.IntRange(min=1),
    help="Maximum number of replacements in a period.",
)
@click.option("--periods", type=click.IntRange(min=1), help="Stop after this many periods.")
@json_option
def follow(
    address: str, device_id: int, jobs: tuple[int, ...], top_k: int, period_s: float, margin: float,
    max_moves: int, periods: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Keep the most updated keys of jobs in the switch.

    Training goes on meanwhile. At the end of each period, keys that are updated more often replace others, if
    the difference exceeds the margin and random variation. At the beginning a set that is too small is filled
    from the updates that the servers have counted so far. Prints one line, or with --json one object, for
    each period and job.

    A job gets the slots of its quota (`hotline quota`) at the end of the period in which it needs them. Slots
    that jobs need beyond their quotas are shared equally among the jobs of this command.

    Ends at Ctrl-C, or when another command becomes the switch's primary controller.
    """
    follower: Follower | None = None

    async def action(controller: Controller) -> None:
        nonlocal follower
        follower = Follower(controller, dict.fromkeys(jobs, Rule(top_k, margin, max_swaps=max_moves)))
        period_number = 0
        async for job_periods in periods_of(follower, period_s, periods):
            for period in job_periods:
                make_line = _as_json if as_json else _describe
                click.echo(make_line(period_number, period))
            period_number += 1

    def retry_hint() -> str | None:
        return "follow" if follower is not None and follower.is_moving else None

    run_on_switch(address, device_id, action, retry_hint=retry_hint)


def _as_json(period_number: int, period: Period) -> str:
    return json.dumps({"period": period_number} | asdict(period) | {"share": period.share})


def _describe(period_number: int, period: Period) -> str:
    keys = f"{period.keys_in:,} in, {period.keys_out:,} out: {pluralize(period.keys, 'key')}"
    parts = [f"{f'period {period_number}' if period_number else 'beginning'} of job {period.job}: {keys}"]
    if period.updates is not None:
        share = "" if period.share is None else f", {period.share:.1%} of them in the switch"
        parts.append(f"{pluralize(period.updates, 'update')}{share}")
    return "; ".join([*parts, f"took {period.seconds:.2f} s"])
