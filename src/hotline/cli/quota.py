from __future__ import annotations

import click

from controller.controller import Controller
from controller.hotset.quotas import CAPACITY
from controller.status import SwitchStatus
from hotline.cli.common import (
    Number,
    json_option,
    print_json,
    print_plain_table,
    run_on_switch,
    switch_options,
)


@click.command()
@switch_options
@click.option("--job", type=click.IntRange(0, 0xFFFF), help="Id of the job whose quota is set.")
@click.option("--keys", type=click.IntRange(0, CAPACITY), help="The quota in hot keys; 0 removes it.")
@click.option("--share", type=Number(0, 1), help="The quota as a share of the switch, from 0 to 1.")
@json_option
def quota(
    address: str, device_id: int, job: int | None, keys: int | None, share: float | None, as_json: bool
) -> None:
    """Set the quota of a job, and show the quotas of all jobs.

    A job may have as many hot keys as its quota at any time, and more only while other jobs do not need
    those slots for their quotas. Each lane has an equal part of a quota, which is rounded up to a multiple of
    32. The next `hotline load` or period of `hotline follow` applies it. It is lost if the switch restarts.
    """
    quota_options = [value for value in (keys, share) if value is not None]
    expected_options = 0 if job is None else 1
    if len(quota_options) != expected_options:
        raise click.UsageError("expected --job with --keys or --share, or none of the three")

    async def action(controller: Controller) -> SwitchStatus:
        if job is not None:
            await controller.set_quota(job, round((share or 0) * CAPACITY) if keys is None else keys)
        return await controller.status()

    status = run_on_switch(address, device_id, action, primary=job is not None)
    rows = [(row.job, row.quota, sum(status.count_states(row.job).values())) for row in status.jobs]
    if as_json:
        jobs = [dict(zip(("job", "quota", "keys"), row, strict=True)) for row in rows]
        print_json({"capacity": CAPACITY, "jobs": jobs})
        return
    print_plain_table(["job", "quota", "keys"], [list(row) for row in rows])
    click.echo(f"{sum(quota for _, quota, _ in rows):,} of {CAPACITY:,} keys are in quotas")
