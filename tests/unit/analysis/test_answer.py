"""What a run's answer says, sentence by sentence: of made-up differences."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.answer import Answer, answer, nouns
from analysis.facts import facts, without_intervals
from analysis.statistics import Comparison
from analysis.summary import Summary
from tests.harness.summaries import a_load, a_summary, of_ratio
from tests.harness.words import all_that_counts, what_counts

LESS, MORE = of_ratio(-0.2, -0.25, -0.15), of_ratio(0.2, 0.15, 0.25)
OPEN = of_ratio(0.1, -0.011, 0.23)
QUIET = of_ratio(0.0, -0.01, 0.01)
NOT_KNOWN = of_ratio(0.1)
PULL, PUSH, CPU = "pull_mean", "push_mean", "ps_cpu_us_per_step"


def summary(
    hot: dict[str, Comparison], proxy: dict[str, Comparison] | None = None, **changes: Any
) -> Summary:
    of_load: dict[str, Any] = {
        "differences": {
            "again": dict.fromkeys(nouns(), QUIET),
            "hot": hot,
            **({} if proxy is None else {"proxy": proxy}),
        }
    }
    of_run = {name: changes.pop(name) for name in list(changes) if name in Summary.model_fields}
    return a_summary({"0.5": a_load(**{**of_load, **changes})}, **{"cpus": 2, **of_run})


def said(of: Summary) -> list[str]:
    return answer(of).texts()


def test_counts_and_cpu_come_first_then_operations_then_what_is_not_told_apart() -> None:
    hot = {
        PULL: MORE,
        PUSH: OPEN,
        CPU: LESS,
        "ps_packets_per_step": LESS,
        "ps_bytes_per_step": MORE,
        "rpcs_per_step": MORE,
        "worker_cpu_us_per_step": MORE,
        "worker_cpu_without_switch_us_per_step": OPEN,
    }
    found = summary(hot, {PULL: OPEN, PUSH: LESS}, learning={"hot": of_ratio(0.001, -0.002, 0.004)})
    assert all_that_counts(said(found)) == all_that_counts(
        [
            "servers save -20 % [-25, -15] packets, -20 % [-25, -15] CPU",
            "servers pay +20 % [+15, +25] bytes",
            "workers pay +20 % [+15, +25] RPCs, +20 % [+15, +25] CPU",
            "pulls longer +20 % [+15, +25]",
            "model same 1 % +0.1 % [-0.2, +0.4] log loss",
            "measurable workers CPU switch's program +10 % [-1.1, +23], pushes +10 % [-1.1, +23]",
            "proxy pushes sooner -20 % [-25, -15]",
            "proxy measurable pulls +10 % [-1.1, +23]",
        ]
    )


def test_a_heading_of_two_claims_is_borne_by_both() -> None:
    """+10 % [-1.1, +23] for a pull is no part of "operations take longer"."""
    proxy = {PULL: OPEN, PUSH: of_ratio(0.12, 0.05, 0.2)}
    assert all_that_counts(said(summary({}, proxy))) == all_that_counts(
        ["proxy pushes longer +12 % [+5.0, +20]", "proxy measurable pulls +10 % [-1.1, +23]"]
    )
    [told] = said(summary({}, {PULL: MORE, PUSH: MORE}))
    assert what_counts(told) == what_counts("proxy pulls pushes longer +20 % [+15, +25] +20 % [+15, +25]")


def test_colours_are_of_what_is_claimed() -> None:
    found = answer(summary({PULL: MORE, PUSH: OPEN, CPU: LESS}))
    tones = {span.text: span.tone for sentence in found.sentences for span in sentence if "%" in span.text}
    assert tones == {
        "-20 % [-25, -15]": "better",
        "+20 % [+15, +25]": "worse",
        "+10 % [-1.1, +23]": "",
    }


def test_what_noise_covers_stands_beside_the_noise() -> None:
    found = summary({PULL: of_ratio(0.04, 0.01, 0.07)})
    load = found.loads["0.5"]
    wide = {**load.differences, "again": {PULL: of_ratio(0.0, -0.06, 0.05)}}
    changed = found.model_copy(update={"loads": {"0.5": load.model_copy(update={"differences": wide})}})
    [told] = said(changed)
    assert what_counts(told) == what_counts("measurable pulls +4.0 % [+1.0, +7.0] neither [-6.0, +5.0]")


def test_disturbed_blocks_take_their_own_claims_and_leave_the_rest() -> None:
    why = "5 of 20 blocks stayed disturbed (steal 5)"
    found = answer(summary({PULL: MORE, PUSH: LESS, CPU: LESS}, hindrances={"hot": {"time": why}}))
    assert found.is_trusted
    saved, withheld = found.texts()
    assert what_counts(saved) == what_counts("servers save -20 % [-25, -15] CPU")
    assert what_counts(withheld) == what_counts(
        f"compared {why} pulls +20 % [+15, +25], pushes -20 % [-25, -15]"
    )
    assert why in withheld
    assert what_counts(found.headline) == what_counts(
        "do it, servers cost you, servers save CPU, operations measurably"
    )


def test_what_is_open_anyway_is_not_told_apart_and_not_withheld() -> None:
    hindered = {"hot": {"time": "5 of 20 blocks stayed disturbed (steal 5)"}}
    [told] = said(summary({PULL: OPEN}, hindrances=hindered))
    assert what_counts(told) == what_counts("measurable pulls +10 % [-1.1, +23]")


def test_logs_that_lack_rows_take_times_only() -> None:
    found = answer(summary({PULL: MORE, CPU: LESS}, dropped_rows=9))
    assert found.is_trusted
    saved, withheld = found.texts()
    assert what_counts(saved) == what_counts("servers save -20 % [-25, -15] CPU")
    assert what_counts(withheld) == what_counts("compared 9 pulls +20 % [+15, +25]")
    assert "disk" in withheld and "rows" in withheld


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ((-0.004, -0.009, 0.002), "model same 1 % -0.4 % [-0.9, +0.2] log loss"),
        ((0.03, 0.02, 0.04), "model learns less +3.0 % [+2.0, +4.0] log loss"),
        ((-0.03, -0.04, -0.02), "model learns more -3.0 % [-4.0, -2.0] log loss"),
        # Of two default runs one said so, and the other had *neither* 3.8 % from itself.
        ((-0.016, -0.06, 0.03), "measurable log loss -1.6 % [-6.0, +3.0]"),
        ((-0.016,), "without an interval log loss -1.6 %"),
    ],
)
def test_what_is_said_of_the_model(found: tuple[float, ...], sentence: str) -> None:
    [told] = said(summary({}, learning={"hot": of_ratio(*found)}))
    assert what_counts(told) == what_counts(sentence)


def test_few_rounds_bear_no_claim() -> None:
    found = answer(summary({PULL: NOT_KNOWN, PUSH: NOT_KNOWN, CPU: NOT_KNOWN}))
    assert found.is_trusted
    assert found.headline.startswith("No recommendation") and "6 complete rounds" in found.headline
    [told] = found.texts()
    assert what_counts(told) == what_counts(
        "without an interval 6 servers CPU +10 %, pulls +10 %, pushes +10 %"
    )


def test_one_metric_without_an_interval_keeps_no_other_from_being_claimed() -> None:
    found = answer(summary({PULL: LESS, PUSH: LESS, CPU: NOT_KNOWN}))
    assert what_counts(found.headline) == what_counts(
        "do it, latency, servers CPU measurably, operations sooner"
    )


@pytest.mark.parametrize("open_", [PULL, PUSH])
def test_operations_of_which_one_has_no_interval_are_no_fact(open_: str) -> None:
    known = summary({PULL: LESS, PUSH: LESS})
    assert [fact for fact in facts(known) if fact.startswith("Load 0.5")]
    other = summary({PULL: LESS, PUSH: LESS, open_: NOT_KNOWN})
    assert not [fact for fact in facts(other) if fact.startswith("Load 0.5")]
    # That there are no intervals is said where all lack theirs.
    assert not list(without_intervals(other.loads["0.5"]))
    none = a_load(differences={"hot": {PULL: NOT_KNOWN, PUSH: NOT_KNOWN}})
    assert len(list(without_intervals(none))) == 1


@pytest.mark.parametrize(("first", "other", "saves"), [(LESS, OPEN, True), (OPEN, LESS, False)])
def test_a_saving_at_another_load_is_not_the_answers(
    first: Comparison, other: Comparison, saves: bool
) -> None:
    of_loads = {name: a_load(differences={"hot": {CPU: of}}) for name, of in (("0.5", first), ("0.8", other))}
    found = answer(a_summary(of_loads))
    assert any(text.startswith("The servers save") for text in found.texts()) == saves
    assert found.headline.startswith("Do it") == saves


def test_without_again_the_null_is_left_out_and_that_is_said() -> None:
    bare = a_load(differences={"hot": {CPU: LESS}})
    [note] = said(a_summary({"0.5": bare}))[1:]
    assert "again" in note
    # In virtual time it would be none.
    assert note not in said(a_summary({"0.5": bare}, virtual_s=1.0))


@pytest.mark.parametrize(("arms", "why"), [("neither hot", "no complete round"), ("neither both", "not run")])
def test_of_an_arm_without_rounds_it_says_whether_it_was_run(arms: str, why: str) -> None:
    found = answer(a_summary({"0.5": a_load()}, capacity=dict.fromkeys(arms.split(), 200.0)))
    assert found.headline.startswith("No recommendation: arm hot") and why in found.headline
    assert found.sentences == ()


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({}, "On this machine (2 CPUs)"),
        ({"cpus": None}, "On this machine"),
        ({"cpus": None, "virtual_s": 3.0}, "In virtual time"),
    ],
)
def test_the_title_says_where_and_of_what(changes: dict[str, Any], where: str) -> None:
    title = answer(summary({CPU: LESS}, **changes)).title
    assert title.startswith(f"{where}: ")
    assert what_counts(title.removeprefix(where)) == what_counts("hot neither 0.5 neither 95 %")


def test_an_answer_is_of_the_first_load() -> None:
    first, other = (a_load(differences={"hot": {CPU: each}}) for each in (LESS, MORE))
    found = answer(a_summary({"0.5": first, "0.8": other}))
    assert "at load 0.5" in found.title and "servers cost you" in found.headline


@pytest.mark.parametrize(
    ("servers", "pull", "push", "headline"),
    [
        (LESS, LESS, LESS, "do it, servers save CPU, operations sooner"),
        (LESS, LESS, OPEN, "do it, servers save CPU, pulls sooner"),
        (LESS, MORE, MORE, "do it, servers limits, servers save CPU, operations longer"),
        (LESS, OPEN, MORE, "do it, servers limits, servers save CPU, pushes longer"),
        (LESS, LESS, MORE, "do it, servers limits, servers save CPU, pulls sooner, pushes longer"),
        (LESS, OPEN, OPEN, "do it, servers cost you, servers save CPU, operations measurably"),
        (OPEN, LESS, OPEN, "do it, latency, servers CPU measurably, pulls sooner"),
        (OPEN, OPEN, OPEN, "undecided, neither servers CPU operations measurably"),
        (OPEN, MORE, MORE, "not pay, servers CPU measurably, operations longer"),
        (OPEN, LESS, MORE, "mixed, servers CPU measurably, pulls sooner, pushes longer"),
        (OPEN, OPEN, MORE, "not pay, servers CPU measurably, pushes longer"),
        (MORE, OPEN, OPEN, "not pay, servers spend more CPU, operations measurably"),
        (MORE, LESS, LESS, "mixed, servers spend more CPU, operations sooner"),
        (MORE, LESS, OPEN, "mixed, servers spend more CPU, pulls sooner"),
        (MORE, LESS, MORE, "mixed, servers spend more CPU, pulls sooner, pushes longer"),
        (MORE, MORE, MORE, "not pay, servers spend more CPU, operations longer"),
    ],
)
def test_the_headline_follows_from_what_is_claimed(
    servers: Comparison, pull: Comparison, push: Comparison, headline: str
) -> None:
    found = answer(summary({CPU: servers, PULL: pull, PUSH: push}))
    assert found.is_trusted and what_counts(found.headline) == what_counts(headline)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"overflows": 5}, "5 additions overflowed"),
        ({"changed_arms": ["hot", "both"]}, "changed hot, both"),
        (
            {"updates": {"sent": 9, "applied": 5, "lost": 4, "unknown": 0, "mismatched_keys": 2}},
            "4 updates lost 2 keys",
        ),
    ],
)
def test_what_breaks_everything_is_the_headline(changes: dict[str, Any], why: str) -> None:
    found = answer(summary({CPU: LESS}, **changes))
    assert not found.is_trusted and what_counts(found.headline) == what_counts(f"trusted {why}")


def test_an_answer_is_a_value() -> None:
    found = answer(summary({CPU: LESS}))
    assert Answer.model_validate_json(found.model_dump_json()) == found
