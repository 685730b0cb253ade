from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from analysis.page.build import Page
from analysis.page.study import text_table, write_report
from analysis.wording import ReportTable
from foundation.text import pluralize, signed
from hotline_allreduce.study.breakdown import PARTS
from hotline_allreduce.study.figures import figures_of
from hotline_allreduce.study.numbers import AllReduceNumbers, Line
from hotline_allreduce.study.plan import MEMORY
from hotline_allreduce.study.point import DELAY_US, QUEUE_KB, SWITCH_MPPS, SWITCH_US

_HOW_TO_READ = (
    "A simulation with the P4 programs and agents of real runs. The dedicated switch delays a frame by "
    f"{SWITCH_US:g} µs and takes {SWITCH_MPPS:,.0f} million frames a second. A cable delays a frame by "
    f"{DELAY_US:g} µs, and up to {QUEUE_KB:,.0f} KiB wait before it.",
    "Unless stated otherwise, only links take time, hosts take none. A worker has up to 64 packets "
    "under way.",
    "atp has one server, which takes no share of the values while cells of the switch are free. Another job "
    "that has a share of the memory keeps it: SwitchML's window is smaller by that share, and ATP's packets "
    "go to the server until they have found a free cell.",
    "With published parameters SwitchML has 256 packets of 256 or 64 values under way, ATP 64 of its code's "
    "100; exact, psdense and ring are Hotline's own. With equal bytes of values under way, a value of exact "
    "counts as two, and ATP cannot have 65,536.",
    "psdense has as many servers as workers, or one for four workers. switchml-checked also compares the "
    "numbers of chunks, which costs no byte on any link.",
    "Each part of the time is the difference between two runs. Values: transmission of the values alone on "
    "the busiest link. Headers: the same for headers, acknowledgements, preambles and gaps. Filling up: "
    "the time until all links are busy. A round trip: the delay to what answers, switch or host, and back. "
    "The window: further waiting for results. Hosts: the agents' measured time. Retransmissions: with 0.1 % "
    "of the frames lost.",
    "R1's hot set: the model has the 20,000 most updated parameters. In offload and none a worker pulls and "
    "pushes the parameters of its mini-batch. In the other designs a push is an all-reduce of all 20,000.",
)


def write_page(numbers: AllReduceNumbers, provenance: Sequence[tuple[str, str]], folder: Path) -> Path:
    figures = list(figures_of(numbers))
    page = Page(
        title="All-reduce: designs side by side",
        provenance=provenance,
        tables=tables_of(numbers),
        how_to_read=_HOW_TO_READ,
    )
    return write_report(page, figures, folder, numbers)


def tables_of(numbers: AllReduceNumbers) -> list[tuple[str, Sequence[ReportTable]]]:
    sections: list[tuple[str, Sequence[ReportTable]]] = [
        ("Goodput", [
            goodput_table("Million values/s of a worker, by workers", numbers.goodput_by_workers),
            goodput_table(
                "Million values/s of a worker, by frames lost", numbers.goodput_by_loss, is_share=True
            ),
            goodput_table(
                "Million values/s of a worker, by the share of the memory that another job has",
                numbers.goodput_by_taken, is_share=True,
            ),
        ]),
        ("Published parameters, and equal ones", list(fair_page_tables(numbers))),
        ("Several jobs", list(jobs_tables(numbers))),
        ("Time against the limit of links", [limits_table(numbers), parts_table(numbers)]),
        ("Frame bytes a value on every link", [octets_table(numbers)]),
        ("Memory of the switch", [memory_table(numbers)]),
        ("R1's hot set", [
            training_table(question, numbers)
            for question in dict.fromkeys(each.question for each in numbers.training)
        ]),
    ]  # fmt: skip
    if numbers.headlines:
        sections.append(("A step of training", [model_steps_table(numbers)]))
    return sections


def goodput_table(title: str, lines: Sequence[Line], is_share: bool = False) -> ReportTable:
    columns = sorted({x for line in lines for x in line.x})
    rows = []
    for line in lines:
        rates = dict(zip(line.x, line.y, strict=True))
        texts = (_three_digits_of_millions(rates[x]) if x in rates else "-" for x in columns)
        rows.append((f"{line.scheme}, {line.gbit:g} Gbit/s", *texts))
    head = (f"{100 * x:g} %" if is_share else f"{x:,g}" for x in columns)
    return text_table(title, ("", *head), rows)


def fair_page_tables(numbers: AllReduceNumbers) -> Iterator[ReportTable]:
    for title in dict.fromkeys(row.table for row in numbers.fair):
        rows = [row for row in numbers.fair if row.table == title]
        texts = [
            (
                row.scheme,
                f"{row.chunk_size}",
                f"{row.window}",
                *map(_three_digits_of_millions, row.goodput.values()),
            )
            for row in rows
        ]
        head = (
            "",
            "values of a packet",
            "packets in flight",
            *(f"{gbit:g} Gbit/s" for gbit in rows[0].goodput),
        )
        yield text_table(f"Million values/s of a worker, {title}", head, texts)


def _three_digits_of_millions(rate: float) -> str:
    return _three_digits(1e-6 * rate)


def _three_digits(value: float) -> str:
    return f"{float(f'{value:.3g}'):,g}"


def jobs_tables(numbers: AllReduceNumbers) -> Iterator[ReportTable]:
    head = ("", *(pluralize(each, "job") for each in numbers.jobs[0].jobs))
    columns: tuple[tuple[str, str, Callable[[float], str]], ...] = (
        ("Million values/s of a worker", "goodput", _three_digits_of_millions),
        ("Share that the switch adds up", "in_switch", "{:.0%}".format),
        ("Jain's index", "fairness", "{:.3f}".format),
    )
    for title, column, format_value in columns:
        rows = [
            (
                f"{each.scheme}, {f'{each.slots:,} slots' if each.question == MEMORY else each.question}",
                *map(format_value, getattr(each, column)),
            )
            for each in numbers.jobs
        ]
        yield text_table(title, head, rows)


def limits_table(numbers: AllReduceNumbers) -> ReportTable:
    rows = [
        (
            f"{each.scheme}, {each.gbit:g} Gbit/s", f"{each.servers}",
            f"{each.payload_ms:,.4g}", f"{each.limit_ms:,.4g}", f"{each.ms:,.4g}",
            f"{signed(100 * (each.ms / each.payload_ms - 1))}%",
            f"{signed(100 * (each.ms / each.limit_ms - 1), 1)}%",
        )
        for each in numbers.limits
    ]  # fmt: skip
    head = (
        "", "servers", "limit for values, ms", "with headers, ms", "simulated, ms",
        "above limit for values", "above limit with headers",
    )  # fmt: skip
    title = f"An all-reduce of {numbers.values:,} values by {numbers.workers} workers"
    return text_table(title, head, rows)


def parts_table(numbers: AllReduceNumbers) -> ReportTable:
    rows = [
        (
            f"{each.scheme}, {each.gbit:g} Gbit/s",
            *(f"{ms:,.3f}" for ms in (*(each.parts_ms[name] for name in PARTS), each.whole_ms)),
        )
        for each in numbers.limits
    ]
    return text_table("What the time is made of, ms", ("", *PARTS, "total"), rows)


def octets_table(numbers: AllReduceNumbers) -> ReportTable:
    rows = [
        (
            each.scheme, f"{each.workers}", f"{each.servers}", f"{each.chunk_size}",
            f"{each.worker_up:.2f}", f"{each.worker_down:.2f}",
            f"{each.server_up:.2f}", f"{each.server_down:.2f}",
        )
        for each in numbers.octets
    ]  # fmt: skip
    head = (
        "", "workers", "servers", "values of a packet", "worker, up", "worker, down", "server, up",
        "server, down",
    )  # fmt: skip
    note = (
        "SwitchML's packet of 64 values has 308 bytes: 4.81 a value. Floats take one more batch, of "
        "exponents."
    )
    return text_table("Frame bytes a value, without preambles and gaps", head, rows, [note])


def memory_table(numbers: AllReduceNumbers) -> ReportTable:
    rows = [
        (
            each.arm, f"{each.slots:,}", f"{each.values}", f"{each.value_bytes:,}", f"{each.other_bytes:,}",
            f"{each.bytes:,}",
        )
        for each in numbers.memory
    ]  # fmt: skip
    head = ("", "slots", "values of a slot", "bytes of values", "other bytes", "all bytes")
    return text_table("Registers", head, rows)


def training_table(question: str, numbers: AllReduceNumbers) -> ReportTable:
    training_rows = [row for row in numbers.training if row.question == question]
    rows = [
        (
            row.arm, "wait" if row.waits else "do not", f"{row.steps_per_s:,.0f}", f"{row.step_us:,.0f}",
            f"{row.bytes_per_step:,.0f}", f"{row.packets_per_step:,.0f}",
            f"{row.server_packets_per_step:,.0f}", f"{row.last_loss:.4f}",
            "never" if row.ms_to_loss is None else f"{row.ms_to_loss:,.1f}",
        )
        for row in training_rows
    ]  # fmt: skip
    head = (
        "", "workers", "steps/s of all", "µs a step", "bytes on a worker's cable a step", 
        "frames on that cable", "frames at servers", "loss at the end", f"ms to {training_rows[0].loss:.3f}",
    )  # fmt: skip
    return text_table(question, head, rows)


def model_steps_table(numbers: AllReduceNumbers) -> ReportTable:
    rows = [
        (
            f"{each.scheme}, {each.gbit:g} Gbit/s", f"{each.all_reduce_ms:,.1f}", f"{each.compute_ms:,.1f}",
            f"{each.after_ms:,.1f}", f"{each.beside_ms:,.1f}",
        )
        for each in numbers.headlines
    ]  # fmt: skip
    head = ("", "all-reduce, ms", "computing, ms", "serial, ms", "overlapped, ms")
    title = f"{numbers.headlines[0].model}, {numbers.headlines[0].workers} workers"
    return text_table(title, head, rows)
