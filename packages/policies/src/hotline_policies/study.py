from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import numpy as np
from numpy.typing import NDArray

from controller.hotset.rules import module_of_rule
from foundation.cached import Cached, read_cached, with_checksum
from foundation.compiled import sources
from foundation.concurrency import run_interruptibly
from foundation.errors import DataError, reason_of
from foundation.logs.access.log_files import expand
from foundation.logs.parts import write_into_folder
from foundation.protocol.memory import MemoryOfRows, memory_of_rows
from hotline_policies.drift import half_life, half_lives_by_table, recovery_time
from hotline_policies.generated import LogSpec, write_parts
from hotline_policies.log import PULL, PolicyLog, prepare
from hotline_policies.packets import Sample, rpcs_with_policy, rpcs_without_offload, sample_steps
from hotline_policies.policy import PolicySpec
from hotline_policies.replay import PULLS, UPDATES, replay, updates_by_table
from hotline_policies.results import LogFacts, PolicyOutcome, Study, can_follow
from hotline_policies.rules import POLICIES, rule_of, spec_named
from hotline_policies.settings import StudySettings

StudyProgress = Callable[[str, int, int], None]  # activity, work done and total
_MIN_CPU_S = 1e-9  # resolution of the clock
_COMPILING = 0  # reported instead of a number of accesses while a replay compiles its policy


class _CachedPart(Cached):
    outcomes: tuple[PolicyOutcome, ...] = ()
    facts: LogFacts | None = None


class _Cache:
    """The finished parts of a study, which are files in its folder."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self._folder, self._fingerprint = folder, fingerprint
        part = read_cached(folder / "facts.json", fingerprint, _CachedPart)
        self.facts = None if part is None else part.facts
        self._outcomes: dict[tuple[str, tuple[int, ...]], tuple[PolicyOutcome, ...]] = {}

    def study(self, settings: StudySettings) -> Study | None:
        """Return the study, or None if a part of it is missing."""
        if self.facts is None:
            return None
        if self.facts.has_dims or settings.dims:
            settings = settings.for_log(self.facts.dims)
        parts = [self.outcomes(*run) for run in _runs(settings)]
        if not all(parts):
            return None
        return Study(facts=self.facts, settings=settings, outcomes=tuple(chain(*parts)))

    def outcomes(self, spec: PolicySpec, sizes: tuple[int, ...]) -> tuple[PolicyOutcome, ...]:
        """Return the outcomes of a replay; () if it is missing."""
        if (spec.name, sizes) not in self._outcomes:
            fingerprint = _fingerprint_of_policy(spec, self._fingerprint)
            part = read_cached(self._file_of(spec, sizes), fingerprint, _CachedPart)
            self._outcomes[spec.name, sizes] = () if part is None else part.outcomes
        return self._outcomes[spec.name, sizes]

    def add_facts(self, facts: LogFacts) -> None:
        self.facts = facts
        _write_cached(self._folder / "facts.json", _CachedPart(fingerprint=self._fingerprint, facts=facts))

    def add_outcomes(
        self, spec: PolicySpec, sizes: tuple[int, ...], outcomes: tuple[PolicyOutcome, ...]
    ) -> None:
        self._outcomes[spec.name, sizes] = outcomes
        fingerprint = _fingerprint_of_policy(spec, self._fingerprint)
        part = _CachedPart(fingerprint=fingerprint, outcomes=outcomes)
        _write_cached(self._file_of(spec, sizes), part)

    def _file_of(self, spec: PolicySpec, sizes: tuple[int, ...]) -> Path:
        return self._folder / "parts" / f"{spec.name}{'' if spec.one_pass else f'-{sizes[0]}'}.json"


def study(
    files: Sequence[Path],
    log_spec: LogSpec | None,
    settings: StudySettings,
    folder: Path,
    progress: StudyProgress,
) -> Study:
    """Study update logs or training sets, or a generated log, and cache the results in `folder`.

    After Ctrl-C the folder has only finished parts. Raises `DataError` if files cannot be read or written.
    """
    cache = _Cache(folder, _fingerprint(files, log_spec, settings))
    result = cache.study(settings)
    if result is None:
        # At Ctrl-C the worker thread is abandoned, so the calling thread removes the folder.
        with _scratch_folder(folder) as scratch:
            result = run_interruptibly(lambda: _complete(cache, files, log_spec, settings, scratch, progress))
    write_into_folder(folder / "study.json", result.model_dump_json(indent=2) + "\n")
    return result


def _complete(
    cache: _Cache, files: Sequence[Path], log_spec: LogSpec | None, settings: StudySettings, scratch: Path,
    progress: StudyProgress,
) -> Study:  # fmt: skip
    """Read the log, and replay it by the policies whose outcomes are not cached."""
    log = _read_log(files, log_spec, settings, scratch, progress)
    dims = settings.dims_of_keys(log)
    if log.dim_of is not None or settings.dims:
        settings = settings.for_log(np.unique(dims).tolist())
    sample = sample_steps(log, dims)
    facts = cache.facts or _make_facts(log, log_spec, dims, sample, settings)
    cache.add_facts(facts)
    remaining = [run for run in _runs(settings) if not cache.outcomes(*run)]
    for index, (spec, sizes) in enumerate(remaining):
        report_progress = _replay_progress(log, index, remaining, progress)
        outcomes = tuple(_replay_outcomes(log, spec, sizes, sample, facts, settings, report_progress))
        cache.add_outcomes(spec, sizes, outcomes)
    result = cache.study(settings)
    assert result is not None
    return result


def _runs(settings: StudySettings) -> Iterator[tuple[PolicySpec, tuple[int, ...]]]:
    for spec in _specs(settings.policies):
        yield from [(spec, settings.sizes)] if spec.one_pass else [(spec, (size,)) for size in settings.sizes]


def _specs(names: Sequence[str]) -> list[PolicySpec]:
    """Return the policies of these names, or all built-in ones; rules of users come last."""
    built_in = [spec for spec in POLICIES if not names or spec.name in names]
    return built_in + [spec for spec in map(spec_named, dict.fromkeys(names)) if spec not in POLICIES]


def check_names(names: Sequence[str], size: int) -> None:
    """Raise `DataError` for an unknown policy, and `RuleError` for a rule that cannot start."""
    for spec in _specs(names):
        if spec.check is not None:
            spec.check(size)


def _read_log(
    files: Sequence[Path],
    log_spec: LogSpec | None,
    settings: StudySettings,
    scratch: Path,
    progress: StudyProgress,
) -> PolicyLog:
    def progress_of(activity: str) -> Callable[[int, int], None]:
        return lambda done, total: progress(activity, done, total)

    if log_spec is None:
        return prepare(files, scratch, settings.train_share, settings.read_options, progress_of("reading"))
    part_files = write_parts(log_spec, scratch, progress_of("generating"))
    return prepare(
        part_files, scratch, settings.train_share, log_spec.read_options(settings), progress_of("reading"),
        log_spec.title,
    )  # fmt: skip


def _replay_progress(
    log: PolicyLog, index: int, runs: Sequence[tuple[PolicySpec, tuple[int, ...]]], progress: StudyProgress
) -> Callable[[int], None]:
    def length(spec: PolicySpec) -> int:
        return len(log.accesses) - (0 if spec.warms_up else log.training_accesses)

    replayed = sum(length(spec) for spec, _ in runs[:index])
    total = sum(length(spec) for spec, _ in runs)

    def report_progress(accesses: int) -> None:
        nonlocal replayed
        replayed += accesses
        title = runs[index][0].title
        is_compiling = accesses == _COMPILING
        activity = f"{title}: compiling (the first use takes a minute)" if is_compiling else title
        progress(activity, replayed, total)

    return report_progress


def _make_facts(
    log: PolicyLog,
    log_spec: LogSpec | None,
    dims: NDArray[np.int64],
    sample: Sample,
    settings: StudySettings,
) -> LogFacts:
    pulls = sum(int((chunk >= PULL).sum()) for chunk in log.chunks(log.training_accesses, len(log.accesses)))
    return LogFacts(
        name=log.name,
        updates=len(log.accesses) - log.training_accesses - pulls,
        pulls=pulls,
        keys=len(log.keys),
        steps=log.steps,
        scored_steps=log.steps - log.training_steps,
        period=settings.period(log.steps),
        half_life=half_life(log),
        without=rpcs_without_offload(sample, settings.servers),
        shift_at=None if log_spec is None else log_spec.shift_at,
        tables=log.tables,
        table_updates=tuple(updates_by_table(log).tolist()),
        table_half_lives=tuple(half_lives_by_table(log)),
        notes=log.notes if log_spec is None else (),
        dims=tuple(np.unique(dims).tolist()),
        has_dims=log.dim_of is not None,
        memory=_memory_by_size(log, dims, settings.sizes),
    )


def _memory_by_size(
    log: PolicyLog, dims: NDArray[np.int64], sizes: Sequence[int]
) -> tuple[MemoryOfRows, ...]:
    """Return the memory of the most updated rows of the training part, for each size of the hot set."""
    hottest = dims[np.argsort(-log.update_counts, kind="stable")]
    return tuple(memory_of_rows(hottest[:size]) for size in sizes)


def _replay_outcomes(
    log: PolicyLog, spec: PolicySpec, sizes: Sequence[int], sample: Sample, facts: LogFacts,
    settings: StudySettings, progress: Callable[[int], None],
) -> Iterator[PolicyOutcome]:  # fmt: skip
    progress(_COMPILING)
    result = replay(log, spec, sizes, facts.period, sample.steps, progress)
    seconds = facts.scored_steps / settings.rate
    for size_index, size in enumerate(sizes):
        hits = result.hits[size_index]
        installs, evictions = (int(moves) for moves in result.moves[:, size_index])
        over_time = tuple((hits[:, UPDATES] / result.accesses[:, UPDATES]).tolist())
        rpcs = rpcs_with_policy(sample, settings.servers, log, result.sampled_levels, size_index)
        yield PolicyOutcome(
            policy=spec.name,
            title=spec.title,
            size=size,
            is_bound=spec.is_bound or spec.known_steps >= facts.scored_steps,
            known_steps=spec.known_steps,
            by_switch=spec.by_switch,
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
            follows=can_follow(installs + evictions, seconds, spec.by_switch, settings.writes_per_s),
            table_hits=tuple(result.table_hits[size_index].tolist()),
            updates_per_cpu_s=result.accesses_replayed / max(result.cpu_s, _MIN_CPU_S),
            follows_after=_steps_to_follow(over_time, facts),
        )


def _steps_to_follow(over_time: Sequence[float], facts: LogFacts) -> int | None:
    if facts.steps_after_shift is None:
        return None
    shift = (facts.scored_steps - facts.steps_after_shift) / facts.scored_steps
    time = recovery_time(over_time, shift)
    return None if time is None else round(time * facts.scored_steps)


def _fingerprint(files: Sequence[Path], log_spec: LogSpec | None, settings: StudySettings) -> str:
    """Return a digest of the data, the settings except the choice of policies, and the code."""
    texts = [settings.model_copy(update={"policies": ()}).model_dump_json(), repr(log_spec)]
    for file in expand(files):
        try:
            status = file.stat()
        except OSError as error:
            raise DataError(f"{file}: cannot be read: {error.strerror or error}") from error
        texts.append(f"{file.resolve()} {status.st_size} {status.st_mtime_ns}")
    code = b"".join(source.read_bytes() for source in sources(__name__))
    return hashlib.sha256("\n".join(texts).encode() + code).hexdigest()


def _fingerprint_of_policy(spec: PolicySpec, fingerprint: str) -> str:
    """Return the fingerprint of a study's part, which for a user's rule includes the rule's code."""
    reference = rule_of(spec)
    if reference is None:
        return fingerprint
    code = b"".join(source.read_bytes() for source in sources(module_of_rule(reference)))
    return hashlib.sha256(fingerprint.encode() + code).hexdigest()


def _write_cached(file: Path, part: _CachedPart) -> None:
    write_into_folder(file, with_checksum(part, file).model_dump_json() + "\n")


@contextmanager
def _scratch_folder(folder: Path) -> Iterator[Path]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(mkdtemp(prefix="log-", dir=folder))
    except OSError as error:
        raise DataError(f"{folder}: cannot be written: {reason_of(error)}") from error
    try:
        yield scratch
    finally:
        rmtree(scratch, ignore_errors=True)
