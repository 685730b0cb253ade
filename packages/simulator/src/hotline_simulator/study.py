"""A study's points: simulations that run in parallel, and whose results are cached in the study's folder."""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Protocol, TypeVar

from pydantic import JsonValue

from controller.dask_cluster import run_in_parallel
from foundation.cached import Cached, read_cached, with_checksum
from foundation.checkout import ROOT
from foundation.designs.interface import Design
from foundation.designs.registry import modules_of
from foundation.import_graph import digest_of
from foundation.logs.parts import make_folder, write_into_folder
from foundation.settings import Strict

StudyProgress = Callable[[int, int, str], None]  # results so far, points, title of the latest point
ResultT_co = TypeVar("ResultT_co", covariant=True)

_SCRATCH: ContextVar[str | None] = ContextVar("scratch", default=None)


class StudyPoint(Strict, ABC):
    """The settings of a simulation, whose result depends on them, on `inputs` and on its code only."""

    result_class: ClassVar[type[Strict]]

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the file with the result, without its suffix; it may have a folder."""

    @property
    def title(self) -> str:
        return self.name

    @property
    @abstractmethod
    def design(self) -> Design: ...

    @property
    def modules(self) -> tuple[str, ...]:
        """Modules that simulate the point; those that they import count, too."""
        return type(self).__module__, *modules_of(self.design)

    def settings_json(self) -> str:
        """Return the settings on which the result depends."""
        return self.model_dump_json()

    def inputs(self) -> Iterable[bytes]:
        """Return what the result depends on besides settings and code: other defaults, and files."""
        return ()

    @abstractmethod
    def run(self) -> Strict: ...


class CachedResult(Cached):
    result: JsonValue
    wall_s: float


class RunsTo(Protocol[ResultT_co]):
    @property
    def name(self) -> str: ...

    def run(self) -> ResultT_co: ...


class Results:
    """The results of a study's points."""

    def __init__(self, results: Mapping[str, object]) -> None:
        self._results = results

    def of(self, point: RunsTo[ResultT_co]) -> ResultT_co:
        result: ResultT_co = self._results[point.name]  # type: ignore[assignment]  # its `run` has made it
        return result


def run_points(
    points: Sequence[StudyPoint],
    folder: Path,
    scheduler: str | None,
    processes: int,
    progress: StudyProgress,
) -> Results:
    """Run the points that have no result in `folder`/points, and store each result when it is available.

    `scheduler` is the address of a dask.distributed cluster whose workers have this project; None runs
    `processes` processes on this machine. Raises `DataError` before the first point if a folder of results
    cannot be made, `ClusterError` if no process can run points, and otherwise the error of the first point
    that fails.
    """
    make_folder(folder)
    results = {
        point.name: point.result_class.model_validate(cached.result)
        for point in points
        if (cached := read_cached(_file_of(point, folder), fingerprint(point), CachedResult))
    }
    remaining = [point for point in points if point.name not in results]
    progress(len(results), len(points), "")
    for results_folder in {_file_of(point, folder).parent for point in remaining}:
        make_folder(results_folder)
    # This process creates the scratch folder, and so removes also the files of killed processes.
    with TemporaryDirectory(prefix="hotline-study-") if scheduler is None else nullcontext() as scratch:
        texts = [(f"{_class_name(point)}\n{point.model_dump_json()}",) for point in remaining]
        for number, text in _run_in_parallel(texts, scheduler, processes, scratch):
            point = remaining[number]
            write_into_folder(_file_of(point, folder), text + "\n")
            cached = CachedResult.model_validate_json(text)
            results[point.name] = point.result_class.model_validate(cached.result)
            progress(len(results), len(points), point.title)
    return Results(results)


def _run_in_parallel(
    texts: Sequence[tuple[str]], scheduler: str | None, processes: int, scratch: str | None
) -> Iterable[tuple[int, str]]:
    if not texts:
        return ()
    return run_in_parallel(partial(run_point, scratch=scratch), texts, scheduler, min(processes, len(texts)))


def run_point(text: str, scratch: str | None = None) -> str:
    """Run a point, given as the name of its class and, in the next line, its settings as JSON.

    Returns a `CachedResult` as JSON. `scratch` is what `scratch_folder` returns meanwhile.
    """
    point = point_of(text)
    token = _SCRATCH.set(scratch)
    try:
        start = time.perf_counter()
        result = point.run()
        wall_s = time.perf_counter() - start
    finally:
        _SCRATCH.reset(token)
    return cached_result(point, result, wall_s).model_dump_json()


def point_of(text: str) -> StudyPoint:
    class_name, settings = text.split("\n", 1)
    module, name = class_name.split(":")
    point: StudyPoint = getattr(import_module(module), name).model_validate_json(settings)
    return point


def cached_result(point: StudyPoint, result: Strict, wall_s: float) -> CachedResult:
    cached = CachedResult(
        fingerprint=fingerprint(point), result=result.model_dump(mode="json"), wall_s=wall_s
    )
    return with_checksum(cached, _file_of(point, Path()))


def scratch_folder() -> str | None:
    """Return the folder in which the point that runs may make folders; None for the system's."""
    return _SCRATCH.get()


def fingerprint(point: StudyPoint) -> str:
    """Return a digest of all that a point's result depends on."""
    settings = f"{_class_name(point)} {point.settings_json()}".encode()
    return fingerprint_of(digest_of_code(point), [settings, *point.inputs()])


def digest_of_code(point: StudyPoint, root: Path = ROOT) -> str:
    """Return a digest of the program and the modules of a point, in the checkout at `root`."""
    program = point.design.program
    if program.is_relative_to(ROOT):
        program = root / program.relative_to(ROOT)
    return digest_of(program, point.modules, root)


def fingerprint_of(code: str, inputs: Iterable[bytes]) -> str:
    hasher = hashlib.sha256(code.encode())
    for each in inputs:
        hasher.update(hashlib.sha256(each).digest())
    return hasher.hexdigest()[:16]


def _file_of(point: StudyPoint, folder: Path) -> Path:
    return folder / "points" / f"{point.name}.json"


def _class_name(point: StudyPoint) -> str:
    return f"{type(point).__module__}:{type(point).__qualname__}"
