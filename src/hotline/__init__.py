"""Hotline for your own scripts: the functions behind the commands of `./hotline`.

    import hotline

    run = hotline.simulate(workers=80, servers=20)          # needs neither root nor a network
    print(run.summary.headline, run.page)
    print(hotline.answer(workers=80, servers=20).headline)  # what a switch would do for your cluster
    hotline.curve("log.csv").plot()                         # a notebook displays results, too

    kv = hotline.Worker(tables={"users": (1_000, 16)})  # in a script, with `./hotline up`: docs/scripts.md
    hotline.torch.EmbeddingBag(1_000, 16, kv=kv, lr=0.1)    # the same in a PyTorch model

Each name is imported at its first use: importing numba and Polars takes seconds.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.compare import compare_runs
    from controller.controller import Controller
    from controller.hotset.choice import build as choose_hot_set
    from foundation.errors import HotlineError
    from foundation.protocol.requests import request_frame
    from hotline.results.curve import curve
    from hotline.runs import Run, read, report, report_of_cluster, run

_PACKAGES = {each.name: each for each in entry_points(group="hotline.api")}
_MODULES = {each.name: each for each in entry_points(group="hotline.modules")}
"""Modules of packages, which may need what set-up does not install."""
_SOURCES = {
    "Controller": ("controller.controller", "Controller"),
    "HotlineError": ("foundation.errors", "HotlineError"),
    "choose_hot_set": ("controller.hotset.choice", "build"),
    "compare_runs": ("analysis.compare", "compare_runs"),
    "curve": ("hotline.results.curve", "curve"),
    "request_frame": ("foundation.protocol.requests", "request_frame"),
}
__all__ = [
    "Controller",
    "HotlineError",
    "Run",
    "choose_hot_set",
    "compare_runs",
    "curve",
    "read",
    "report",
    "report_of_cluster",
    "request_frame",
    "run",
]
__all__ += sorted(_PACKAGES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return _MODULES[name].load()
    if name not in __all__:
        from foundation.packages import install_hint

        hint = install_hint("hotline.api", name) or install_hint("hotline.modules", name)
        hint = hint or f"; it has {', '.join(__all__)}"
        raise AttributeError(f"module 'hotline' has no attribute {name!r}{hint}")
    if name in _PACKAGES:
        return _PACKAGES[name].load()
    module, attribute = _SOURCES.get(name, ("hotline.runs", name))
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
