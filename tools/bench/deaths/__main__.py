"""`python -m tools.bench.deaths`: what the deaths of workers and of sessions of `hotline up` cost."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import click
from rich.console import Console

from foundation.errors import HotlineError
from tools.bench.deaths.checkpoints import INTERVALS_S, Killed, kills
from tools.bench.deaths.restarts import DEATHS_PER_PASS, LOADS, Restart, restarts
from tools.bench.deaths.training import EVERY, Trained, trainings

Study = Callable[[int, Path], Iterator[Killed | Trained | Restart]]
"""Called with the number of passes and a folder that is not there."""
STUDIES: dict[str, tuple[Study, int]] = {
    "checkpoints": (kills, len(INTERVALS_S)),
    "training": (trainings, len(EVERY)),
    "restarts": (restarts, DEATHS_PER_PASS * len(LOADS)),
}
"""Name -> the function that yields measurements, and their number in a pass."""


def measure(name: str, passes: int, folder: Path) -> Iterator[dict[str, object]]:
    """Yield the measurements of a study, and print each to standard error."""
    err = Console(stderr=True, width=200)
    study, per_pass = STUDIES[name]
    for number, measured in enumerate(study(passes, folder / name), start=1):
        err.print(f"{name}, {number} of {passes * per_pass}: {measured}", highlight=False)
        yield measured._asdict()


@click.command()
@click.option("--passes", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--only", type=click.Choice(list(STUDIES)), multiple=True, help="Make only this study.")
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Folder of the sessions, temporary by default."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(passes: int, only: tuple[str, ...], folder: Path | None, as_json: bool) -> None:
    """Kill sessions and workers, and measure what is lost: some three minutes a pass (root)."""
    folder = Path(tempfile.mkdtemp(prefix="hotline-deaths-", dir=folder))
    found = {name: list(measure(name, passes, folder)) for name in only or STUDIES}
    if as_json:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    try:
        main()
    except HotlineError as error:
        raise SystemExit(str(error)) from None
