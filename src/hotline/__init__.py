"""Hotline for your own scripts: the functions behind the commands of `./hotline`.

    import hotline

    run = hotline.simulate(workers=80, servers=20)          # needs neither root nor a network
    print(run.summary.headline, run.page)
    print(hotline.answer(workers=80, servers=20).headline)  # what a switch would do for your cluster
    hotline.curve("log.csv").plot()                         # a notebook displays results, too

    kv = hotline.Worker(tables={"users": (1_000, 16)})      # in a script, with `./hotline up`: docs/kv.md
    hotline.torch.EmbeddingBag(1_000, 16, kv=kv, lr=0.1)    # the same in a PyTorch model

Each name is imported at its first use: importing numba and Polars takes seconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.compare import compare_runs
    from controller.controller import Controller
    from controller.hotset.choice import build as choose_hot_set
    from foundation.errors import HotlineError
    from hotline.kv.worker import Worker
    from hotline_answers.result import answer
    from hotline.results.curve import curve
    from hotline.results.miss_ratio import miss_ratio
    from hotline.results.policies import study
    from hotline.runs import Run, read, report, report_of_cluster, run, simulate
    from hotline_dense.answers import requirements_of as whatif
    from hotline_dense.answers import step_times as overlap

__all__ = [
    "Controller",
    "HotlineError",
    "Run",
    "Worker",
    "answer",
    "choose_hot_set",
    "compare_runs",
    "curve",
    "miss_ratio",
    "overlap",
    "read",
    "report",
    "report_of_cluster",
    "run",
    "simulate",
    "study",
    "whatif",
]

_SOURCES = {
    "Controller": ("controller.controller", "Controller"),
    "HotlineError": ("foundation.errors", "HotlineError"),
    "Worker": ("hotline.kv.worker", "Worker"),
    "answer": ("hotline_answers.result", "answer"),
    "choose_hot_set": ("controller.hotset.choice", "build"),
    "compare_runs": ("analysis.compare", "compare_runs"),
    "curve": ("hotline.results.curve", "curve"),
    "miss_ratio": ("hotline.results.miss_ratio", "miss_ratio"),
    "overlap": ("hotline_dense.answers", "step_times"),
    "study": ("hotline.results.policies", "study"),
    "whatif": ("hotline_dense.answers", "requirements_of"),
}


def __getattr__(name: str) -> Any:
    if name == "torch":
        return import_module("hotline.torch")
    if name not in __all__:
        raise AttributeError(f"module 'hotline' has no attribute {name!r}; it has {', '.join(__all__)}")
    module, attribute = _SOURCES.get(name, ("hotline.runs", name))
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
