"""Cables that are bad for a while: down, or slower than they are."""

from __future__ import annotations

from nativekit.compile import compiled, int64
from simulator.events import put_event
from simulator.state import NOBODY, SPELL_BEGINS, SPELL_ENDS, Outage, World


@compiled
def begin_spell(world: World, k: int, now: int) -> None:
    """Spell `k` begins; puts its end, and its next beginning."""
    spell = world.spells[k]
    _change(world, spell, 1)
    put_event(world, now + int64(spell.lasts), SPELL_ENDS, k, NOBODY)
    if spell.every:
        put_event(world, now + int64(spell.every), SPELL_BEGINS, k, NOBODY)


@compiled
def end_spell(world: World, k: int) -> None:
    """Spell `k` ends."""
    _change(world, world.spells[k], -1)


@compiled
def _change(world: World, spell: Outage, by: int) -> None:
    # Spells of a cable may overlap: each adds its own, and takes only that away.
    for link in (world.up[spell.host], world.down[spell.host]):
        link.delay += by * spell.late
        link.down += by * spell.down
