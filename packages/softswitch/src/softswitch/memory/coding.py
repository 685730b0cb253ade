"""Encode keys and run-time data of table entries as words, and decode them."""

from __future__ import annotations

from collections.abc import Sequence

from softswitch import ir
from softswitch.memory.layout import TableLayout
from softswitch.memory.words import join_words, split_words, words_of


def data_words(program: ir.Program, invocation: ir.Invocation) -> list[int]:
    widths = program.actions[invocation.action].parameters
    words = [invocation.action]
    for value, width in zip(invocation.args, widths, strict=True):
        words += split_words(value, words_of(width))
    return words


def read_data(program: ir.Program, words: Sequence[int]) -> ir.Invocation:
    args: list[int] = []
    position = 1  # after the action
    for width in program.actions[words[0]].parameters:
        word_count = words_of(width)
        args.append(join_words(words[position : position + word_count]))
        position += word_count
    return ir.Invocation(words[0], tuple(args))


def match_words(layout: TableLayout, key: tuple[ir.Match, ...], priority: int) -> list[int]:
    return _ranked_words(layout, key, priority) if layout.is_ranked else _exact_words(layout, key)


def _exact_words(layout: TableLayout, key: tuple[ir.Match, ...]) -> list[int]:
    value = 0
    for match, part in zip(key, layout.table.key, strict=True):
        assert isinstance(match, int)
        value = value << part.width | (match if part.mask is None else match & part.mask)
    return split_words(value, layout.key_words)


def _ranked_words(layout: TableLayout, key: tuple[ir.Match, ...], priority: int) -> list[int]:
    value = mask = 0
    bounds: list[int] = []
    for match, part in zip(key, layout.table.key, strict=True):
        value, mask = value << part.width, mask << part.width
        match part.mask_match(match):
            case ir.Masked(match_bits, match_mask):
                value, mask = value | match_bits, mask | match_mask
            case ir.RangeMatch(low, high):
                bound_words = words_of(part.width)
                bounds += split_words(low, bound_words) + split_words(high, bound_words)
            case exact_value:
                value, mask = value | exact_value, mask | ((1 << part.width) - 1)
    words = layout.field_words
    return [*split_words(value, words), *split_words(mask, words), layout.table.rank(key, priority), *bounds]


def read_key(layout: TableLayout, record: Sequence[int], mask_words: Sequence[int]) -> tuple[ir.Match, ...]:
    """Decode a record's match; `mask_words` is its group's mask, or empty if the table is not ranked."""
    value = join_words(record[: layout.field_words])
    mask = join_words(mask_words)
    bounds = layout.bounds
    shift = sum(part.width for part in layout.table.key)
    key: list[ir.Match] = []
    for part in layout.table.key:
        shift -= part.width
        width_mask = (1 << part.width) - 1
        if part.kind is ir.MatchKind.EXACT:
            key.append(value >> shift & width_mask)
        elif part.kind is ir.MatchKind.RANGE:
            bound_words = words_of(part.width)
            low, high = (
                join_words(record[position : position + bound_words])
                for position in (bounds, bounds + bound_words)
            )
            key.append(ir.RangeMatch(low, high))
            bounds += 2 * bound_words
        else:
            key.append(ir.Masked(value >> shift & width_mask, mask >> shift & width_mask))
    return tuple(key)
