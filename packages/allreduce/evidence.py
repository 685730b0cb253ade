"""All-reduce compared: the tables of packages/allreduce/README.md, from one `hotline allreduce`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

from hotline_allreduce.study.fair import EQUAL_BYTES, PUBLISHED
from hotline_allreduce.study.numbers import AllReduceNumbers, JobsRow, Line, ModelStep, TrainingRow
from hotline_allreduce.study.plan import MEMORY, UPLINK
from packages.allreduce.evidence_of_sums import STAGES as OF_SUMS
from tools.evidence.result import Cell, EvidenceError, Measured, Table, make_table
from tools.evidence.stage import Stage, json_output, modules_of, typed

STEP = typed("study", "./hotline allreduce --json", "--into", "{folder}/study")
_ONE = "one simulation each"
_MILLIONS = "{:,.0f}"
_GBITS = (10.0, 100.0)
_WORKERS = (2.0, 8.0, 32.0)
_JOBS = (1, 8)
_FAIR = {
    PUBLISHED: ("allreduce-published", "published parameters"),
    f"{EQUAL_BYTES[0]:,} bytes in flight": ("allreduce-fair-16k", "16,384 bytes in flight"),
    f"{EQUAL_BYTES[1]:,} bytes in flight": ("allreduce-fair-64k", "65,536 bytes in flight"),
}
"""Title of a table in the study -> its result, and what distinguishes it."""
_QUESTIONS = {
    "10 Gbit/s": "no computing",
    "10 Gbit/s, computing 1,000 µs a step": "1 ms of computing a step",
    "the same, one worker 4 times as slow": "and one worker 4 times as slow",
}
"""Question of the study -> how a page says it."""
_RESULTS = (
    "allreduce-goodput", *(name for name, _ in _FAIR.values()), "allreduce-loss", "allreduce-memory",
    "allreduce-jobs", "allreduce-hotset-jobs", "allreduce-uplink", "allreduce-r1", "allreduce-r1-training",
    "allreduce-resnet",
)  # fmt: skip


def tables(folder: Path) -> dict[str, Table]:
    return dict(_tables(AllReduceNumbers.model_validate(json_output(folder, STEP.name))))


def _tables(numbers: AllReduceNumbers) -> Iterator[tuple[str, Table]]:
    yield "allreduce-goodput", _goodput(numbers)
    for title, (name, distinction) in _FAIR.items():
        yield name, _fair(numbers, title, distinction)
    yield "allreduce-loss", _loss(numbers)
    yield "allreduce-memory", _memory(numbers)
    rows = [row for row in numbers.jobs if row.question == MEMORY]
    yield "allreduce-jobs", _jobs([row for row in rows if row.scheme in ("switchml", "atp")])
    yield "allreduce-hotset-jobs", _hotset_jobs([row for row in rows if row.scheme == "hotset"])
    yield "allreduce-uplink", _uplink([row for row in numbers.jobs if row.question == UPLINK])
    yield "allreduce-r1", _steps(numbers)
    yield "allreduce-r1-training", _training(numbers)
    yield "allreduce-resnet", _resnet(numbers.headlines)


def _goodput(numbers: AllReduceNumbers) -> Table:
    lines = [each for each in numbers.goodput_by_workers if each.scheme != "switchml-checked"]
    return make_table(
        "goodput of a worker without loss, million values/s",
        _ONE,
        ("", "Gbit/s"),
        {f"{workers:g} workers": _MILLIONS for workers in _WORKERS},
        {_named(each): [_rate(_at(each, workers)) for workers in _WORKERS] for each in lines},
    )


def _fair(numbers: AllReduceNumbers, title: str, distinction: str) -> Table:
    rows = [each for each in numbers.fair if each.table == title]
    return make_table(
        f"goodput of a worker with {distinction}, million values/s",
        _ONE,
        ("", "values a packet", "packets in flight"),
        {f"{gbit:g} Gbit/s": _MILLIONS for gbit in _GBITS},
        {
            (_code(each.scheme.partition(",")[0]), f"{each.chunk_size}", f"{each.window}"): [
                _rate(each.goodput[gbit]) for gbit in _GBITS
            ]
            for each in rows
        },
    )


def _loss(numbers: AllReduceNumbers) -> Table:
    schemes = {
        "switchml": ("`switchml`", "20"), "switchml, 1 ms": ("`switchml`", "1"),
        "atp": ("`atp`", "20"), "atp, 0.2 ms": ("`atp`", "0.2"), "psdense": ("`psdense`", "20"),
    }  # fmt: skip
    lines = {each.scheme: each for each in numbers.goodput_by_loss if each.gbit == _GBITS[0]}
    shares = lines["switchml"].x
    forms = (_MILLIONS, "{:,.0f}", "{:,.1f}", "{:,.2f}")
    return make_table(
        "goodput of a worker with lost frames, 10 Gbit/s, million values/s",
        "median of three seeds, and their range",
        ("", "time-out, ms"),
        {f"{100 * share:g} %": form for share, form in zip(shares, forms, strict=True)},
        {names: [_with_range(lines[scheme], share) for share in shares] for scheme, names in schemes.items()},
    )


def _with_range(line: Line, x: float) -> Cell:
    index = line.x.index(x)
    if not x or line.low is None or line.high is None:
        return _rate(line.y[index])
    return Measured(value=_rate(line.y[index]), low=_rate(line.low[index]), high=_rate(line.high[index]))


def _memory(numbers: AllReduceNumbers) -> Table:
    lines = [each for each in numbers.goodput_by_taken if each.scheme in ("switchml", "atp")]
    shares = sorted({*chain(*(each.x for each in lines))})
    return make_table(
        "goodput of a worker while another job has a share of the switch's memory, million values/s",
        _ONE,
        ("", "Gbit/s"),
        {f"{100 * share:g} %": _MILLIONS for share in shares},
        {
            _named(each): [_rate(_at(each, share)) if share in each.x else None for share in shares]
            for each in lines
        },
    )


def _jobs(rows: list[JobsRow]) -> Table:
    by_scheme = {(each.scheme, each.slots): each for each in rows}
    slots = sorted({each.slots for each in rows}, reverse=True)

    def cells(count: int) -> Iterator[Cell]:
        for scheme in ("switchml", "atp"):
            yield from _of_jobs(by_scheme.get((scheme, count)), "goodput", 1e-6)
        yield from _of_jobs(by_scheme[("atp", count)], "in_switch", 100)
        yield from (min(row.fairness) for row in [by_scheme[("atp", count)]])

    titles = [f"{scheme}, {_jobs_text(jobs)}" for scheme in ("`switchml`", "`atp`") for jobs in _JOBS]
    shares = [f"`atp` in the switch, {_jobs_text(jobs)}" for jobs in _JOBS]
    return make_table(
        "goodput of a worker of each job that shares the switch's memory, million values/s, the share of "
        "packets that the switch adds up, and Jain's index of the jobs",
        _ONE,
        ("cells",),
        {
            **dict.fromkeys(titles, _MILLIONS),
            **dict.fromkeys(shares, "{:.0f} %"),
            "`atp`, least Jain's index": "{:.3f}",
        },
        {(f"{count:,}",): list(cells(count)) for count in slots},
    )


def _hotset_jobs(rows: list[JobsRow]) -> Table:
    return make_table(
        "share of the updates that the switch adds up, of jobs of a hot set of 6,000 keys without quotas",
        _ONE,
        ("slots",),
        {_jobs_text(jobs): "{:.0f} %" for jobs in _JOBS},
        {(f"{each.slots:,}",): list(_of_jobs(each, "in_switch", 100)) for each in rows},
    )


def _uplink(rows: list[JobsRow]) -> Table:
    return make_table(
        "goodput of a worker of each job whose workers share one uplink of 100 Gbit/s, million values/s",
        _ONE,
        ("",),
        {_jobs_text(jobs): "{:,.1f}" for jobs in _JOBS},
        {(_code(each.scheme),): list(_of_jobs(each, "goodput", 1e-6)) for each in rows},
    )


def _of_jobs(row: JobsRow | None, field: str, scale: float) -> Iterator[Cell]:
    for jobs in _JOBS:
        yield None if row is None else scale * getattr(row, field)[row.jobs.index(jobs)]


def _jobs_text(jobs: int) -> str:
    return "1 job" if jobs == 1 else f"{jobs} jobs"


def _steps(numbers: AllReduceNumbers) -> Table:
    slow, fast = (_training_rows(numbers, f"{gbit:g} Gbit/s") for gbit in _GBITS)
    return make_table(
        "cost of a step of R1's hot set, 8 workers",
        _ONE,
        ("",),
        {
            "bytes on a worker's cable": "{:,.0f}",
            "frames at servers": "{:,.0f}",
            "µs, 10 Gbit/s": "{:,.0f}",
            "µs, 100 Gbit/s": "{:,.0f}",
        },
        {
            (_code(arm),): [
                row.bytes_per_step, row.server_packets_per_step, row.step_us, fast[arm].step_us
            ]
            for arm, row in slow.items()
        },
    )  # fmt: skip


def _training(numbers: AllReduceNumbers) -> Table:
    by_question = {title: _training_rows(numbers, question) for question, title in _QUESTIONS.items()}
    arms = next(iter(by_question.values()))
    columns: dict[str, str] = {}
    for title in by_question:
        columns |= {f"steps/s, {title}": "{:,.0f}", f"ms, {title}": "{:,.1f}"}
    return make_table(
        "steps/s of all 8 workers that train R1's hot set at 10 Gbit/s, and ms until the model counts as "
        "trained",
        "one simulated training each",
        ("",),
        columns,
        {
            (_code(arm),): list(
                chain(*((by[arm].steps_per_s, by[arm].ms_to_loss) for by in by_question.values()))
            )
            for arm in arms
        },
    )


def _training_rows(numbers: AllReduceNumbers, question: str) -> Mapping[str, TrainingRow]:
    found = {
        each.arm: each
        for each in numbers.training
        if each.question == question and each.arm != "switchml-checked"
    }
    if not found:
        raise EvidenceError(f"expected the trainings {question!r}, found none")
    return found


def _resnet(steps: list[ModelStep]) -> Table:
    by_scheme = {(each.scheme, each.gbit): each for each in steps}
    fields = {"all_reduce_ms": "all-reduce", "after_ms": "serial", "beside_ms": "overlapped"}
    return make_table(
        "time of a step of ResNet-50, 4 workers, ms",
        _ONE,
        ("",),
        {f"{title}, {gbit:g} Gbit/s": "{:,.1f}" for title in fields.values() for gbit in _GBITS},
        {
            (_code(scheme),): [getattr(by_scheme[scheme, gbit], field) for field in fields for gbit in _GBITS]
            for scheme in dict.fromkeys(each.scheme for each in steps)
        },
    )


def _at(line: Line, x: float) -> float:
    return line.y[line.x.index(x)]


def _rate(values_per_s: float) -> float:
    return 1e-6 * values_per_s


def _named(line: Line) -> tuple[str, str]:
    return _code(line.scheme), f"{line.gbit:g}"


def _code(scheme: str) -> str:
    """Return a scheme's name as pages write it: what follows a comma is a setting."""
    name, comma, setting = scheme.partition(",")
    return f"`{name}`{comma}{setting}"


ALLREDUCE = Stage(
    name="allreduce",
    minutes=25,
    results=_RESULTS,
    steps=(STEP,),
    tables=tables,
    modules=(
        "hotline_allreduce.study.numbers",
        *modules_of("hotset", "none", "switchml", "atp", "exact", "psdense", "ring"),
    ),
    files=("p4src/**/*.json", "packages/allreduce/p4src/**/*.json"),
    seeds=(1, 2, 3),
)  # fmt: skip
STAGES = (ALLREDUCE, *OF_SUMS)
