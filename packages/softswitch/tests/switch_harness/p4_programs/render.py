"""The two texts of a drawn program: a plain one, and one that needs more of the compiler to mean the same.

Drawn text marks brackets that precedence makes superfluous, and integers. The plain text has all brackets and
decimal integers; the other one has no superfluous bracket, integers of all bases, comments and macros.
"""

from __future__ import annotations

import re

from switch_harness.p4_programs.choices import Chooser

OPEN, CLOSE = "⟦", "⟧"
_INTEGER = re.compile("«([^»]*)»")
_INCLUDE = "#include <v1model.p4>\n"


def integer(value: int, width: int | None, is_signed: bool = False) -> str:
    """Return the marked text of an integer, which may be negative."""
    prefix = "" if width is None else f"{width}{'s' if is_signed else 'w'}"
    if value < 0:
        return f"{OPEN}-«{prefix},{-value}»{CLOSE}"
    return f"«{prefix},{value}»"


def plain(marked: str) -> str:
    text = marked.replace(OPEN, "(").replace(CLOSE, ")")
    return _INCLUDE + _INTEGER.sub(lambda found: found[1].replace(",", ""), text)


def dense(marked: str, chooser: Chooser) -> str:
    """Return the text without superfluous brackets, with varied integers, comments and macros."""
    macros: list[str] = []

    def vary(found: re.Match[str]) -> str:
        prefix, digits = found[1].split(",")
        value = int(digits)
        text = (
            prefix + [digits, f"0x{value:X}", f"0b{value:b}", f"0o{value:o}", f"0d{value}"][chooser.below(5)]
        )
        if len(text) > len(prefix) + 3 and chooser.chance(20):
            text = f"{text[:-1]}_{text[-1]}"
        choice = chooser.below(12)
        if choice == 11:
            return f"{text} /* {chooser.pick(['note', '(', '// x', '#if 0'])} */"
        if choice == 10 and len(macros) < 8:
            name = f"MACRO_{len(macros)}"
            macros.append(f"#define {name}(x, y) \\\n    x\n")
            return f"{name}({text}, (1, 2))"
        if choice == 9 and len(macros) < 8:
            name = f"MACRO_{len(macros)}"
            condition = "defined(UNKNOWN) || 1 + 2 * 3 != 7"
            macros.append(
                f"#if {condition}\n#define {name} wrong\n#else\n#define {name} {text}  // comment\n#endif\n"
            )
            return name
        return text

    text = _INTEGER.sub(vary, marked.replace(OPEN, "").replace(CLOSE, ""))
    if chooser.chance(30):
        text = text.replace("bit<16>", "Alias").replace("typedef Alias", "typedef bit<16>")
    return "".join(macros) + _INCLUDE + text
