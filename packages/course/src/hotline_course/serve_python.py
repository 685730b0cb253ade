"""Functions of a submission's Python module, called in its child process."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from pathlib import Path

from hotline_course.channel import Answer, Message


class ModuleError(Exception):
    """A submission's module raised; the text names its line."""


def make_answer(module: Path) -> Answer:
    """Return the function that answers requests; the module is imported at the first one."""
    return _SubmittedFunctions(module).answer


class _SubmittedFunctions:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._functions: dict[str, object] | None = None

    def answer(self, request: Message) -> Message:
        try:
            if self._functions is None:
                self._functions = self._load()
            if request["do"] == "load":
                return {}
            name = request["function"]
            function = self._functions.get(name)
            if not callable(function):
                raise ModuleError(f"{self._path.name}: expected a function {name}")
            return {"value": function(*request["arguments"])}
        except ModuleError:
            raise
        except BaseException as error:  # of the submission's code, also SystemExit
            raise ModuleError(f"{self._place(error)}: {type(error).__name__}: {error}") from None

    def _load(self) -> dict[str, object]:
        sys.path.insert(0, os.fspath(self._path.parent))
        spec = importlib.util.spec_from_file_location(self._path.stem, self._path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[self._path.stem] = module
        spec.loader.exec_module(module)
        return vars(module)

    def _place(self, error: BaseException) -> str:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == os.fspath(self._path)]
        return f"{self._path.name}, line {lines[-1]}" if lines else self._path.name
