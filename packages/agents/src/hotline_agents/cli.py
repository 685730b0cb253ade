"""`hotline recover`: updates that a crashed run has left in the files of its agents."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from foundation.errors import HotlineError
from foundation.text import pluralize
from hotline.cli.common import PATH, json_option, one_line_errors, plain_table, print_json


@click.command()
@click.argument("run", type=PATH)
@click.option("--apply", is_flag=True, help="Add the listed updates to the servers' files.")
@json_option
def recover(run: Path, apply: bool, as_json: bool) -> None:
    """List updates that only the replay logs of dead workers have.

    The switch that held them is gone. RUN is the folder of a run that a worker's death has ended, and
    that had [recovery] journal_sync and replay_log on. With --apply, exits with 1 if the servers' values
    differ from what workers have pushed.
    """
    from experiment.requirements import RunKind, check_design
    from hotline_agents.offline_recovery import open_crashed_run

    with one_line_errors(), open_crashed_run(run) as crashed_run:
        unreplayed_updates = crashed_run.unreplayed()
        if apply:
            check_design(crashed_run.servers[0].design, RunKind.RECOVERY)
        mismatched_keys = crashed_run.recover() if apply else None
        if as_json:
            unreplayed_rows = [each._asdict() for each in unreplayed_updates]
            mismatch = {} if mismatched_keys is None else {"keys_that_differ": mismatched_keys}
            print_json({"unreplayed": unreplayed_rows, **mismatch})
        else:
            rows = [[updates.worker, updates.job, f"{updates.keys:,}"] for updates in unreplayed_updates]
            Console().print(plain_table(["worker", "job", "keys"], rows) if rows else "no unreplayed updates")
            if mismatched_keys == 0:
                click.echo(f"the servers' files in {crashed_run.folder} contain all pushed values")
        if mismatched_keys:
            raise HotlineError(
                f"{crashed_run.folder}: {pluralize(mismatched_keys, 'key')} differ from "
                "what workers have pushed"
            )
