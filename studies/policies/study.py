"""All policies over one log, with all sizes; what is done is not done again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from pydantic import ValidationError

from foundation.concurrency import run_interruptibly
from foundation.logs.errors import DataError, reason_of
from foundation.logs.parts import write_into_folder
from foundation.settings import Strict
from studies.policies.compiling import sources
from studies.policies.drift import half_life, regained
from studies.policies.generated import Built, write_parts
from studies.policies.ingest import prepare
from studies.policies.log import PULL, Log
from studies.policies.packets import Sample, packed, sample, without
from studies.policies.policy import Kind
from studies.policies.replay import PULLS, UPDATES, Replayed, replay
from studies.policies.results import Facts, Outcome, Settings, Study, follows
from studies.policies.rules.all import BY_NAME, KINDS

Progress = Callable[[str, int, int], None]
"""Told what is being done, how many accesses of it are done, and of how many."""


class _Kept(Strict):
    """A part of a study in its file, and what it was made of."""

    made_of: str
    outcomes: tuple[Outcome, ...] = ()
    facts: Facts | None = None


def study(
    files: Sequence[Path], built: Built | None, settings: Settings, into: Path, progress: Progress
) -> Study:
    """Study update logs or training sets, or a log that is built; results are kept in the folder `into`.

    Ctrl-C ends it, and leaves what is done and nothing half-done. Raises `DataError`.
    """
    made_of = _made_of(files, built, settings)
    runs = list(_runs(settings))
    facts, found = _kept(into / "facts.json", made_of).facts, {}
    for kind, sizes in runs:
        if kept := _kept(_file_of(into, kind, sizes), made_of).outcomes:
            found[kind.name, sizes] = kept
    left = [(kind, sizes) for kind, sizes in runs if (kind.name, sizes) not in found]

    def complete(scratch: Path) -> Facts:
        log = _log(files, built, settings, scratch, progress)
        taken = sample(log)
        known = facts or _facts(log, built, taken, settings)
        _keep(into / "facts.json", _Kept(made_of=made_of, facts=known))
        for done, (kind, sizes) in enumerate(left):
            told = _told(log, done, left, progress)
            outcomes = _outcomes(log, kind, sizes, taken, known, settings, told)
            _keep(_file_of(into, kind, sizes), _Kept(made_of=made_of, outcomes=outcomes))
            found[kind.name, sizes] = outcomes
        return known

    if facts is None or left:
        # The thread that is left alone at Ctrl-C could not remove the folder any more.
        with _scratch(into) as scratch:
            facts = run_interruptibly(lambda: complete(scratch))
    ordered = (outcome for kind, sizes in runs for outcome in found[kind.name, sizes])
    result = Study(facts=facts, settings=settings, outcomes=tuple(ordered))
    write_into_folder(into / "study.json", result.model_dump_json(indent=2) + "\n")
    return result


def _runs(settings: Settings) -> Iterator[tuple[Kind, tuple[int, ...]]]:
    """A policy with the sizes that it serves in one pass."""
    for kind in KINDS:
        if not settings.policies or kind.name in settings.policies:
            yield from (
                [(kind, settings.sizes)] if kind.one_pass else [(kind, (size,)) for size in settings.sizes]
            )


def check_names(names: Sequence[str]) -> None:
    """Raise `DataError` where there is no such policy."""
    for name in names:
        if name not in BY_NAME:
            raise DataError(f"{name!r} is no policy; there are {', '.join(BY_NAME)}")


def _log(
    files: Sequence[Path], built: Built | None, settings: Settings, scratch: Path, progress: Progress
) -> Log:
    def tell(what: str) -> Callable[[int, int], None]:
        return lambda done, total: progress(what, done, total)

    if built is None:
        return prepare(files, scratch, settings.learn, settings.samples_per_step, tell("reading"))
    parts = write_parts(built, scratch, tell("generating"))
    return prepare(parts, scratch, settings.learn, settings.samples_per_step, tell("reading"), name_of(built))


def name_of(built: Built) -> str:
    """What a built log is called."""
    drift = f", half-life {built.half_life:,g} steps" if built.half_life else ""
    shift = (
        f", half of the hot keys exchanged at step {built.shift_at:,}" if built.shift_at is not None else ""
    )
    return f"{built.shape.name}, generated{drift}{shift}"


def _told(
    log: Log, done: int, left: Sequence[tuple[Kind, tuple[int, ...]]], progress: Progress
) -> Callable[[int], None]:
    """Tells how far all policies have come, in accesses."""

    def length(kind: Kind) -> int:
        return len(log.accesses) - (0 if kind.warms else log.split)

    at = sum(length(kind) for kind, _ in left[:done])
    total = sum(length(kind) for kind, _ in left)

    def tell(accesses: int) -> None:
        nonlocal at
        at += accesses
        title = left[done][0].title
        progress(title if accesses else f"{title}: compiling (the first use takes a minute)", at, total)

    return tell


def _facts(log: Log, built: Built | None, taken: Sample, settings: Settings) -> Facts:
    pulls = sum(int((chunk >= PULL).sum()) for chunk in log.chunks(log.split, len(log.accesses)))
    return Facts(
        name=log.name,
        updates=len(log.accesses) - log.split - pulls,
        pulls=pulls,
        keys=len(log.keys),
        steps=log.steps,
        scored_steps=log.steps - log.learnt,
        period=settings.period(log.steps),
        half_life=half_life(log),
        without=without(taken, settings.servers),
        shift_at=None if built is None else built.shift_at,
    )


def _outcomes(
    log: Log, kind: Kind, sizes: Sequence[int], taken: Sample, facts: Facts, settings: Settings,
    progress: Callable[[int], None],
) -> tuple[Outcome, ...]:  # fmt: skip
    progress(0)
    done = replay(log, kind, sizes, facts.period, taken.steps, progress)
    return tuple(
        _outcome(log, kind, size, number, done, taken, facts, settings) for number, size in enumerate(sizes)
    )


def _outcome(
    log: Log, kind: Kind, size: int, number: int, done: Replayed, taken: Sample, facts: Facts,
    settings: Settings,
) -> Outcome:  # fmt: skip
    hits, seconds = done.hits[number], facts.scored_steps / settings.rate
    installs, evictions = (int(moves) for moves in done.moves[:, number])
    over_time = tuple((hits[:, UPDATES] / done.accesses[:, UPDATES]).tolist())
    rpcs = packed(taken, settings.servers, log, done.found, number)
    return Outcome(
        policy=kind.name,
        title=kind.title,
        size=size,
        is_bound=kind.is_bound,
        by_switch=kind.by_switch,
        updates=facts.updates,
        hits=int(hits[:, UPDATES].sum()),
        pulls=facts.pulls,
        pull_hits=int(hits[:, PULLS].sum()),
        installs=installs,
        evictions=evictions,
        over_time=over_time,
        packed=rpcs,
        spared=1 - rpcs.to_servers / facts.without.to_servers,
        seconds=seconds,
        follows=follows(installs + evictions, seconds, kind.by_switch, settings.writes_per_s),
        updates_per_cpu_s=done.served / max(done.cpu_s, 1e-9),
        follows_after=_follows_after(over_time, facts),
    )


def _follows_after(over_time: Sequence[float], facts: Facts) -> int | None:
    if facts.behind_shift is None:
        return None
    found = regained(over_time, (facts.scored_steps - facts.behind_shift) / facts.scored_steps)
    return None if found is None else round(found * facts.scored_steps)


def _file_of(into: Path, kind: Kind, sizes: Sequence[int]) -> Path:
    return into / "parts" / f"{kind.name}{'' if kind.one_pass else f'-{sizes[0]}'}.json"


def _made_of(files: Sequence[Path], built: Built | None, settings: Settings) -> str:
    """A digest of what results depend on: the data, the settings but which policies, and the code."""
    told = [settings.model_copy(update={"policies": ()}).model_dump_json(), repr(built)]
    for file in files:
        try:
            found = file.stat()
        except OSError as error:
            raise DataError(f"{file}: cannot be read: {error.strerror or error}") from error
        told.append(f"{file.resolve()} {found.st_size} {found.st_mtime_ns}")
    code = b"".join(source.read_bytes() for source in sources())
    return hashlib.sha256("\n".join(told).encode() + code).hexdigest()


def _kept(file: Path, made_of: str) -> _Kept:
    try:
        kept = _Kept.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return _Kept(made_of="")
    return kept if kept.made_of == made_of else _Kept(made_of="")


def _keep(file: Path, kept: _Kept) -> None:
    write_into_folder(file, kept.model_dump_json() + "\n")


@contextmanager
def _scratch(into: Path) -> Iterator[Path]:
    """A folder for a log's arrays, on the disk of the results."""
    try:
        into.mkdir(parents=True, exist_ok=True)
        folder = Path(mkdtemp(prefix="log-", dir=into))
    except OSError as error:
        raise DataError(f"{into}: cannot be written: {reason_of(error)}") from error
    try:
        yield folder
    finally:
        rmtree(folder, ignore_errors=True)
