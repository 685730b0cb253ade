"""What a message says, in whatever words: its values, its places and its remedies."""

from __future__ import annotations

import re


def mentions(*facts: object) -> str:
    """Return a pattern for `match=` of texts that have each fact as a whole, in any order and wording."""
    return r"(?s)\A" + "".join(f"(?=.*{_whole(str(fact))})" for fact in facts)


def says(text: object, *facts: object) -> bool:
    """Return whether a text has each fact as a whole, in any order and wording."""
    return re.search(mentions(*facts), str(text)) is not None


def says_in_one_line(text: object, *facts: object) -> bool:
    return len(str(text).splitlines()) == 1 and says(text, *facts)


def _whole(fact: str) -> str:
    """Return a pattern of a fact that is no part of another: 5 is in "5 keys", and not in 15 or 5,000."""
    before = r"(?<!\w)" if re.match(r"\w", fact) else ""
    before += r"(?<!\d[.,])" if re.match(r"\d", fact) else ""
    after = r"(?!\w)" if re.search(r"\w\Z", fact) else ""
    after += r"(?![.,]\d)" if re.search(r"\d\Z", fact) else ""
    return f"{before}{re.escape(fact)}{after}"
