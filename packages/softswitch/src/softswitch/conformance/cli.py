from __future__ import annotations

import json
import logging
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from softswitch.conformance.pairs import Pair, pairs_in
from softswitch.conformance.runner import Outcome, Verdict, run
from softswitch.conformance.targets import TARGETS
from softswitch.errors import SwitchError
from softswitch.program_options import source_options

_LOG = logging.getLogger("conformance")
_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)  # by the number of -v
_FOLDER = click.Path(path_type=Path)


@click.command()
@click.option("--target", type=click.Choice(list(TARGETS)), default="compiled", show_default=True)
@click.option("--programs", multiple=True, type=_FOLDER, metavar="DIR", help="Folder of programs.")
@click.option(
    "--vectors", multiple=True, type=_FOLDER, metavar="DIR", help="Folder of STF files, named like programs."
)
@source_options
@click.option("--json", "to_json", is_flag=True, help="Print one JSON object per STF file.")
@click.option("-v", "--verbose", count=True, help="Print values of *_read statements; -vv: tracebacks, too.")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[PROGRAM VECTORS.stf]...")
def command(
    target: str,
    programs: Sequence[Path],
    vectors: Sequence[Path],
    to_json: bool,
    verbose: int,
    files: Sequence[Path],
    include_folders: Sequence[Path],
    definitions: Sequence[tuple[str, str]],
) -> None:
    """Run STF vectors on programs (P4 source, or BMv2 JSON with NAME.p4info.txtpb beside NAME.json).

    Prints one line per STF file: pass, fail or refused. The exit status is 1 if any failed.
    """
    logging.basicConfig(format="%(message)s", level=_LEVELS[min(verbose, len(_LEVELS) - 1)])
    pairs = _pairs_of_files(files) + _pairs_in_folders(programs, vectors)
    if not pairs:
        raise click.UsageError("no vectors: give PROGRAM VECTORS.stf, or --programs and --vectors")
    outcomes: Counter[Outcome] = Counter()
    for pair in _show_progress(pairs):
        verdict = run(TARGETS[target], *pair, include_folders, definitions)
        outcomes[verdict.outcome] += 1
        print(_format_json(target, verdict) if to_json else _format_text(verdict), flush=True)
    counts = ", ".join(f"{outcomes[outcome]} {outcome.value}" for outcome in Outcome)
    print(f"conformance: {target}: {counts} of {len(pairs)}", file=sys.stderr)
    sys.exit(1 if outcomes[Outcome.FAIL] else 0)


def main(arguments: Sequence[str] | None = None) -> None:
    try:
        command.main(arguments, prog_name="softswitch conformance")
    except SwitchError as error:
        sys.exit(f"conformance: error: {error}")


def _pairs_of_files(files: Sequence[Path]) -> list[Pair]:
    if len(files) % 2:
        raise click.UsageError(f"expected pairs of files, PROGRAM VECTORS.stf, got {len(files)} files")
    return [Pair(program, vectors) for program, vectors in zip(files[::2], files[1::2], strict=True)]


def _pairs_in_folders(programs: Sequence[Path], vectors: Sequence[Path]) -> list[Pair]:
    if bool(programs) != bool(vectors):
        raise click.UsageError("--programs and --vectors go together")
    pairs, unmatched = pairs_in(programs, vectors)
    for path in unmatched:
        _LOG.warning("%s: no program of this name", path)
    return pairs


def _show_progress(pairs: Sequence[Pair]) -> Iterator[Pair]:
    # If the verdicts are printed on the terminal, they show the progress.
    if sys.stdout.isatty() or not sys.stderr.isatty():
        yield from pairs
        return
    with click.progressbar(pairs, label="running vectors", file=sys.stderr) as bar:
        yield from bar


def _format_text(verdict: Verdict) -> str:
    line = f"{verdict.outcome.value:8}{verdict.program} {verdict.vectors}"
    return f"{line}: {verdict.reason}" if verdict.reason else line


def _format_json(target: str, verdict: Verdict) -> str:
    return json.dumps(
        {
            "target": target,
            "program": str(verdict.program),
            "vectors": str(verdict.vectors),
            "outcome": verdict.outcome.value,
            "reason": verdict.reason,
        }
    )
