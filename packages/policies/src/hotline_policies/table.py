from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from foundation.logs.parts import atomic_path
from hotline_policies.results import PolicyOutcome, Study

_COLUMNS = ("share", "packets spared", "moves/s", "per 1,000 updates", "control plane")
_SHIFT_COLUMN = "steps to follow"
_CONTROL_PLANE_TEXTS = {True: "follows", False: "too slow", None: "not needed"}
_WIDTHS = (1.4, 0.8, 0.8, 1.2, 1.1, 1.3, 1.1, 1.1)  # inches of each column
_ROW_HEIGHT = 0.24  # inches
_HEAD_ROWS = 3  # height of the column titles and margins, in rows
_DPI = 150


def printed_sizes(study: Study, preferred_sizes: Sequence[int] = (100, 1_000, 20_000, 100_000)) -> list[int]:
    return [size for size in study.settings.sizes if size in preferred_sizes] or list(study.settings.sizes)


def columns(study: Study) -> tuple[str, ...]:
    return _COLUMNS if study.facts.steps_after_shift is None else (*_COLUMNS, _SHIFT_COLUMN)


def cells(study: Study, outcome: PolicyOutcome) -> list[str]:
    texts = [
        f"{outcome.share:.1%}",
        f"{outcome.spared:.1%}",
        f"{outcome.moves_per_s:,.0f}",
        f"{outcome.moves_per_thousand:,.1f}",
        "–" if outcome.is_bound else _CONTROL_PLANE_TEXTS[outcome.follows],
    ]
    if study.facts.steps_after_shift is None:
        return texts
    steps_to_follow = outcome.follows_after
    return [
        *texts,
        f"over {study.facts.steps_after_shift:,}" if steps_to_follow is None else f"{steps_to_follow:,}",
    ]


# Policies whose hits are shown for each table of the log.
_POLICIES_BY_TABLE = ("belady", "top-k", "window", "tinylfu", "lru")


def columns_by_table(study: Study, size: int) -> list[str]:
    titles = [each.title for name, each in study.at(size).items() if name in _POLICIES_BY_TABLE]
    return ["table", "updates", "half-life", *titles]


def rows_by_table(study: Study, size: int) -> Iterator[list[str]]:
    outcomes = [each for name, each in study.at(size).items() if name in _POLICIES_BY_TABLE]
    facts = study.facts
    for index, (table, updates) in enumerate(zip(facts.tables, facts.table_updates, strict=True)):
        half_life = facts.table_half_lives[index]
        drift = "–" if half_life is None else f"{half_life:,.0f}"
        shares = [f"{each.table_hits[index] / updates:.1%}" if updates else "–" for each in outcomes]
        yield [table, f"{updates:,}", drift, *shares]


def frame_by_table(study: Study) -> pl.DataFrame:
    return pl.DataFrame(
        [
            (each.policy, each.size, table, updates, hits)
            for each in study.outcomes
            for table, updates, hits in zip(
                study.facts.tables, study.facts.table_updates, each.table_hits, strict=True
            )
        ],
        schema=["policy", "size", "table", "updates", "hits"],
        orient="row",
    )


def frame(study: Study) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "policy": each.policy,
            "size": each.size,
            "updates": each.updates,
            "hits": each.hits,
            "hit_share": each.share,
            "pulls": each.pulls,
            "pull_hit_share": each.pull_share,
            "installs": each.installs,
            "evictions": each.evictions,
            "moves_per_s": each.moves_per_s,
            "moves_per_thousand_updates": each.moves_per_thousand,
            "control_plane_follows": each.follows,
            "rpcs": each.packed.rpcs,
            "packets_to_servers": each.packed.to_servers,
            "packets_spared": each.spared,
            "follows_after_steps": each.follows_after,
            "register_bytes": study.facts.memory[study.settings.sizes.index(each.size)].registers,
            "entry_bytes": study.facts.memory[study.settings.sizes.index(each.size)].entries,
            "updates_per_cpu_s": each.updates_per_cpu_s,
        }
        for each in study.outcomes
    )


def write_table(study: Study, folder: Path) -> None:
    # Without pyplot, whose backend belongs to the caller, for example a notebook.
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

    with atomic_path(folder / "table.csv") as partial:
        frame(study).write_csv(partial)
    if study.facts.tables:
        with atomic_path(folder / "tables.csv") as partial:
            frame_by_table(study).write_csv(partial)
    rows = [
        [each.title, f"{size:,}", *cells(study, each)]
        for size in printed_sizes(study)
        for each in study.at(size).values()
    ]
    widths = _WIDTHS[: len(rows[0])]
    figure = Figure(figsize=(sum(widths), _ROW_HEIGHT * (len(rows) + _HEAD_ROWS)))
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set_axis_off()
    table = axis.table(
        rows,
        colLabels=["policy", "keys", *columns(study)],
        colWidths=[width / sum(widths) for width in widths],
        bbox=Bbox.from_bounds(0.02, 0.02, 0.96, 0.96),
        edges="horizontal",
        cellLoc="right",
    )
    table.auto_set_font_size(False)
    table.set_fontsize(8)
    for (_, column), cell in table.get_celld().items():
        if column == 0:
            cell.get_text().set_horizontalalignment("left")
    with atomic_path(folder / "table.pdf") as partial:
        figure.savefig(partial, format="pdf", dpi=_DPI, metadata={"CreationDate": None})
