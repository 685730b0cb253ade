"""What compiles the simulations of the package's designs, for the set-up of tests."""

from __future__ import annotations

_PLAY = (
    "from hotline_allreduce.{module} import {subject} as subject\n"
    "from hotline_allreduce.simulation.player import play\n"
    "from hotline_allreduce.simulation.schedule import draw_all_reduces\n"
    "play(subject, draw_all_reduces(subject.range, 'loss', 0))"
)
DESIGNS = {
    name: _PLAY.format(module=module, subject=subject)
    for name, module, subject in (
        ("atp", "atp.model.subject", "CHECKED"),
        ("switchml", "switchml.model.subject", "CHECKED"),
        ("psdense", "simulation.subject", "PSDENSE"),
        ("ring", "simulation.subject", "RING"),
    )
}
