"""What a reader takes from a sentence, however it is worded: two that say the same have the same of these."""

from __future__ import annotations

import re

_NUMBERS = r"[-+±×]?\d[\d,]*(?:\.\d+)?(?: ?%| µs| ns| million| steps/s| s\b)?"
_WHOSE = r"neither|again|proxy|hot|both|none|servers|workers|cluster|model|switch's program"
_WHAT = r"pulls?|pushes|operations|packets|bytes|RPCs|CPU|(?:log )?loss|steps|updates|keys|additions|carr\w+"
_VERDICTS = (
    r"save|pays?|not pay|spend more|sooner|longer|same|learns (?:less|more)|measurabl[ey]|unchanged|compared"
    r"|without an interval|limits|cost you|latency|do it|undecided|mixed|trusted"
    r"|overflowed|changed|WARNING|lost"
)
_COUNTS = re.compile(rf"{_NUMBERS}|\b(?:{_WHOSE}|{_WHAT}|{_VERDICTS})\b", re.IGNORECASE)


def what_counts(told: str) -> list[str]:
    """Its numbers with their units, its arms, who and what it is about, and its verdict, in their order."""
    return [each.lower().replace(" ", "") for each in _COUNTS.findall(told)]


def all_that_counts(told: list[str]) -> list[list[str]]:
    """Of each sentence."""
    return list(map(what_counts, told))
