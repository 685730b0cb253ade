"""Commands that change a switch: move hot sets, set quotas, turn offload and proxy on or off."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import Field

from controller.address import SwitchAddress
from controller.sizes import CAPACITY
from experiment.progress import progress_bar
from foundation.settings import JobId
from hotline.cli.common import (
    FILE,
    ON_OFF,
    F,
    T,
    json_option,
    one_line_errors,
    print_json,
    print_plain_table,
    run_on_switch,
)
from hotline.cli.fields import fills
from hotline.cli.options import ADDRESS, ChangeSettings

if TYPE_CHECKING:
    import polars as pl

    from controller.controller import Controller
    from controller.hotset.migrate import MigrationPlan
    from controller.status import SwitchStatus
    from controller.tables import JobRow

_SINGULAR = {"inserts": "insert", "modifies": "modify", "deletes": "delete"}


class QuotaSettings(SwitchAddress):
    job: JobId | None = None
    """Id of the job whose quota is set."""
    keys: int | None = Field(default=None, ge=0, le=CAPACITY)
    """The quota in hot keys; 0 removes it."""
    share: float | None = Field(default=None, ge=0, le=1)
    """The quota as a share of the switch, from 0 to 1."""


def _change_options(function: F) -> Callable[..., None]:
    return fills(ChangeSettings, "change", address=ADDRESS)(json_option(function))


@click.command()
@click.argument("file", type=FILE)
@_change_options
def load(file: Path, change: ChangeSettings, as_json: bool) -> None:
    """Load a hot set into the switch for a job.

    FILE is as `hotline hotset build` writes it, with rows of the job's dims. Only keys by which
    FILE differs from the loaded set are moved, and training continues. To finish an interrupted load, load
    again.
    """
    from controller.hotset import choice as hotsets

    with one_line_errors():
        hot_set = hotsets.read(file)
    _load_keys("load", change, hot_set["key"].to_list(), as_json, (file, hot_set))


@click.command()
@_change_options
def unload(change: ChangeSettings, as_json: bool) -> None:
    """Move all keys of a job back to their parameter servers."""
    _load_keys("unload", change, [], as_json)


def _load_keys(
    command: str,
    change: ChangeSettings,
    keys: list[int],
    as_json: bool,
    source: tuple[Path, pl.DataFrame] | None = None,
) -> None:
    async def action(controller: Controller) -> MigrationPlan:
        if source is not None:
            from controller.hotset import choice as hotsets

            file, hot_set = source
            ranges = (await controller.job(change.job)).ranges
            hotsets.check_dims(hot_set, ranges, str(file), f"job {change.job}")
        if change.dry_run:
            return await controller.plan(change.job, keys)
        with progress_bar(command) as progress:
            return await controller.load(change.job, keys, progress=progress)

    plan = _change(change, command, action)
    _print_changes(dict(plan.summary()), change.dry_run, as_json)


@click.command()
@click.argument("state", type=click.Choice(["on", "off"]))
@_change_options
def offload(state: str, change: ChangeSettings, as_json: bool) -> None:
    """Turn offload of a job's hot set on or off.

    With off, values move to the parameter servers, which then serve them. The table entries stay.
    """
    is_on = state == "on"

    async def action(controller: Controller) -> tuple[JobRow, MigrationPlan]:
        previous_job = await controller.job(change.job)
        if change.dry_run:
            return previous_job, await controller.plan_offload(change.job, is_on)
        with progress_bar(f"offload {state}") as progress:
            return previous_job, await controller.set_offload(change.job, is_on, progress=progress)

    previous_job, plan = _change(change, f"offload {state}", action)
    flag = _flag_change("offload", previous_job.offload, is_on)
    _print_changes(flag | plan.summary(), change.dry_run, as_json)


@click.command()
@click.argument("state", type=click.Choice(["on", "off"]))
@_change_options
def proxy(state: str, change: ChangeSettings, as_json: bool) -> None:
    """Turn the proxy of a job's connections on or off.

    With the proxy on, parameter servers see all workers as one connection; with it off, each has its own.
    """
    is_on = state == "on"

    async def action(controller: Controller) -> JobRow:
        previous_job = await controller.job(change.job)
        if not change.dry_run:
            await controller.set_proxy(change.job, is_on)
        return previous_job

    previous_job = _change(change, f"proxy {state}", action)
    _print_changes(_flag_change("proxy", previous_job.proxy, is_on), change.dry_run, as_json)


@click.command()
@fills(QuotaSettings, "settings", address=ADDRESS)
@json_option
def quota(settings: QuotaSettings, as_json: bool) -> None:
    """Set the quota of a job, and show the quotas of all jobs.

    A job may have as many hot keys as its quota at any time, and more only while other jobs do not need
    those slots for their quotas. Each lane has an equal part of a quota, which is rounded up to a multiple of
    32. The next `hotline load` or period of `hotline follow` applies it. It is lost if the switch restarts.
    """
    job = settings.job
    quota_options = [value for value in (settings.keys, settings.share) if value is not None]
    expected_options = 0 if job is None else 1
    if len(quota_options) != expected_options:
        raise click.UsageError("expected --job with --keys or --share, or none of the three")

    async def action(controller: Controller) -> SwitchStatus:
        if job is not None:
            quota_keys = settings.keys if settings.share is None else round(settings.share * CAPACITY)
            assert quota_keys is not None
            await controller.set_quota(job, quota_keys)
        return await controller.status()

    status = run_on_switch(settings, action, primary=job is not None)
    rows = [(row.job, row.quota, sum(status.count_states(row.job).values())) for row in status.jobs]
    if as_json:
        jobs = [dict(zip(("job", "quota", "keys"), row, strict=True)) for row in rows]
        print_json({"capacity": CAPACITY, "jobs": jobs})
        return
    print_plain_table(["job", "quota", "keys"], [list(row) for row in rows])
    click.echo(f"{sum(quota for _, quota, _ in rows):,} of {CAPACITY:,} keys are in quotas")


def _change(change: ChangeSettings, command: str, action: Callable[[Controller], Awaitable[T]]) -> T:
    return run_on_switch(
        change,
        action,
        primary=not change.dry_run,
        retry_hint=lambda: None if change.dry_run else command,
    )


def _flag_change(name: str, previous: bool, current: bool) -> dict[str, object]:
    return {name: None if previous == current else ON_OFF[current]}


def _print_changes(changes: dict[str, object], dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json({"dry_run": dry_run, **changes})
        return
    parts = [
        f"{name} {change}" if isinstance(change, str) else _format_count(name, change)
        for name, change in changes.items()
        if change
    ]
    prefix = "would do" if dry_run else "done"
    click.echo(f"{prefix}: {', '.join(parts)}" if parts else "nothing to do")


def _format_count(plural: str, count: object) -> str:
    return f"{count} {_SINGULAR.get(plural, plural) if count == 1 else plural}"
