"""What softswitch uses of numba and llvmlite beyond their documentation is there in the form that it expects.

These tests name what a new version changed. The bounds in pyproject.toml exclude versions that nobody tried,
and `make newest` in the checkout tries the newest ones.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import pytest
import tomli
from llvmlite import ir
from numba import types
from numba.core.caching import FunctionCache, NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.datamodel import models
from numba.core.typed_passes import NativeLowering
from numba.core.typing import templates
from packaging.requirements import Requirement

from nativekit import callees, machine_code, machine_generics, machine_references
from nativekit.compile import cached_entry_point, compiled
from softswitch.jit import MachineCode
from softswitch.kernel import compiler
from switch_harness.constructs import compiled as compiled_program

ROOT = Path(__file__).parents[3]
PROJECTS = (ROOT / "pyproject.toml", ROOT.parent.parent / "pyproject.toml")
BOUNDED = ("llvmlite", "numba")
VERSIONS = ", ".join(f"{name} {version(name)}" for name in BOUNDED)


# ---- the bounds


def requirements(project: Path) -> list[str]:
    """Return what a project requires; the testbed requires numba and llvmlite by its extra `full`."""
    table = tomli.loads(project.read_text())["project"]
    extras: dict[str, list[str]] = table["optional-dependencies"]
    return [*table["dependencies"], *extras.get("full", [])]


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("project", PROJECTS, ids=["softswitch", "testbed"])
def test_numba_and_llvmlite_have_an_upper_bound(project: Path, name: str) -> None:
    if not project.exists():
        pytest.skip("softswitch stands alone here, without the testbed")
    [requirement] = [each for each in map(Requirement, requirements(project)) if each.name == name]
    assert {each.operator for each in requirement.specifier} == {">=", "<"}


def test_both_projects_bound_numba_and_llvmlite_alike() -> None:
    bounds = [
        {each for each in requirements(project) if each.startswith(BOUNDED)}
        for project in PROJECTS
        if project.exists()
    ]
    assert all(each == bounds[0] for each in bounds)


# ---- names that sources use: imported ones, and attributes of imported modules


def names_in(file: Path) -> Iterator[str]:
    """Yield the dotted names of numba and llvmlite that a source file uses."""
    text = file.read_text()
    if not any(package in text for package in BOUNDED):
        return
    tree = ast.parse(text)
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in BOUNDED:
                    modules[alias.asname or alias.name.split(".")[0]] = (
                        alias.name if alias.asname else alias.name.split(".")[0]
                    )
                    yield alias.name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in BOUNDED:
            for alias in node.names:
                modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield f"{node.module}.{alias.name}"
    for node in ast.walk(tree):  # `cgutils: Module = _cgutils` gives a module without type hints another name
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Name) and node.value.id in modules:
            assert isinstance(node.target, ast.Name)
            modules[node.target.id] = modules[node.value.id]
    for node in ast.walk(tree):
        parts, inner = [], node
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        if parts and isinstance(inner, ast.Name) and inner.id in modules:
            yield ".".join([modules[inner.id], *reversed(parts)])


def uses() -> set[tuple[str, str]]:
    """Return the files of sources with the names of numba and llvmlite that they use."""
    return {
        (str(file.relative_to(ROOT / "src")), name)
        for file in (ROOT / "src").rglob("*.py")
        for name in names_in(file)
    }


def resolve(name: str) -> object:
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            found = getattr(found, part)
        return found
    raise LookupError(name)


def test_all_private_names_of_numba_and_llvmlite_exist() -> None:
    """All names that any source uses; an alias of a module in one file is found as well."""
    used = uses()
    assert ("nativekit/callees.py", "numba.core.compiler.DefaultPassBuilder.define_nopython_pipeline") in used
    assert ("softswitch/jit.py", "llvmlite.binding.create_mcjit_compiler") in used
    missing = []
    for file, name in sorted(used):
        try:
            resolve(name)
        except (AttributeError, LookupError):
            missing.append(f"{file} uses {name}")
    assert missing == [], f"not in {VERSIONS}"


# ---- methods that are overridden: a renamed one would be ignored


OVERRIDDEN: list[tuple[type, type, tuple[str, ...]]] = [
    (machine_code._CodeCache, FunctionCache, ("load_overload",)),
    (callees._CalleeLibrary, JITCodeLibrary, ("_optimize_final_module", "_finalize_final_module")),
    (callees._CalleeLowering, NativeLowering, ("run_pass",)),
    (callees.CalleeCompiler, CompilerBase, ("define_pipelines",)),
    (machine_generics.GenericType, types.Callable, ("get_call_type", "get_call_signatures", "get_impl_key")),
    (machine_generics.GenericType, types.Type, ("key",)),
    (machine_references.Reference, types.Type, ("key",)),
    (machine_references._Pointer, models.PrimitiveModel, ("__init__",)),
    (machine_references._FieldTypes, templates.AttributeTemplate, ("key", "generic_resolve")),
]


@pytest.mark.parametrize(
    ("ours", "base", "names"), OVERRIDDEN, ids=lambda value: getattr(value, "__name__", "")
)
def test_overridden_methods_of_numba_exist(ours: type, base: type, names: tuple[str, ...]) -> None:
    assert issubclass(ours, base)
    for name in names:
        assert name in vars(ours)
        # `generic_resolve` is looked up by name, and has no default.
        assert hasattr(base, name) or name in ("generic_resolve", "key"), (
            f"{base.__name__}.{name}: {VERSIONS}"
        )


def test_overridden_methods_take_the_same_arguments() -> None:
    for ours, base, names in OVERRIDDEN:
        for name in names:
            inherited = getattr(base, name, None)
            if callable(inherited) and name != "__init__":
                expected = [*signature(inherited).parameters]
                assert [*signature(getattr(ours, name)).parameters] == expected, f"{base}.{name}: {VERSIONS}"


# ---- machine code that is loaded without what compiles (nativekit/machine_code.py)


def test_numbas_cache_has_the_attributes_that_loading_uses() -> None:
    for name in ("_guard_against_spurious_io_errors", "_load_overload"):
        assert hasattr(FunctionCache, name), f"FunctionCache.{name}: {VERSIONS}"
    dispatcher = compiled(lambda: 1)
    assert isinstance(vars(dispatcher)["_cache"], NullCache), f"Dispatcher._cache: {VERSIONS}"


# ---- what numba's compiler gives to a pass (nativekit/callees.py)


def chains_in_lowering() -> set[str]:
    """Return the attributes that `_CalleeLowering.run_pass` uses, as `state.flags.copy`."""
    tree = ast.parse(Path(callees.__file__).read_text())
    [lowering] = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == "_CalleeLowering"]
    chains = {ast.unparse(node) for node in ast.walk(lowering) if isinstance(node, ast.Attribute)}
    return {chain for chain in chains if chain.split(".")[0] in ("state", "lowered", "descriptor")}


def test_a_pass_has_the_state_that_callees_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chains = chains_in_lowering()
    assert {"state.library._reload_init", "state.flags.no_compile", "descriptor.lookup_module"} <= chains
    lower = callees._CalleeLowering.run_pass
    missing: set[str] = set()

    def look(self: Any, state: Any) -> bool:
        result: bool = lower(self, state)
        lowered = state["cr"]
        roots = {"state": state, "lowered": lowered, "descriptor": lowered.fndesc}
        for chain in chains:
            found, *parts = chain.split(".")
            value: Any = roots[found]
            for part in parts:
                if not hasattr(value, part):
                    missing.add(chain)
                    break
                value = getattr(value, part)
        return result

    monkeypatch.setattr(callees._CalleeLowering, "run_pass", look)

    @compiled
    def increment(value: int) -> int:
        return value + 1

    def call(value: int) -> int:
        return increment(value)

    assert cached_entry_point(call, tmp_path, ())(1) == 2
    assert missing == set(), VERSIONS


def test_exactly_one_pass_of_numba_lowers_functions() -> None:
    """`CalleeCompiler` replaces it; numba lists its passes by class."""

    class State:
        def __getattr__(self, name: str) -> Any:
            return State()

        def __bool__(self) -> bool:
            return False

    builder: Any = DefaultPassBuilder  # has no type hints
    passes = [each for each, _ in builder.define_nopython_pipeline(State()).passes]
    assert passes.count(NativeLowering) == 1, VERSIONS


# ---- LLVM's IR as llvmlite prints it (kernel/compiler.py), and machine code (jit.py)


def printed_module() -> ir.Module:
    """Return a module with functions of all forms that the kernel's code has."""
    module = ir.Module("forms")
    kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64), ir.PointerType()])
    for name, section, linkage, attributes in [
        ("plain", "", "", []),
        ("entry", "entry", "", []),
        ("internal", "", "internal", ["noinline"]),
        ("inlined", "", "internal", ["alwaysinline"]),
    ]:
        function = ir.Function(module, kind, name)
        function.section, function.linkage = section, linkage
        for attribute in attributes:
            function.attributes.add(attribute)
        ir.IRBuilder(function.append_basic_block()).ret(function.args[0])
    return module


def test_each_function_of_printed_ir_gets_the_attribute() -> None:
    source = str(printed_module())
    assert source.count("define ") == 4
    module = llvm.parse_assembly(compiler.without_builtins(source))
    attributes = {function.name: b" ".join(function.attributes).decode() for function in module.functions}
    assert set(attributes) == {"plain", "entry", "internal", "inlined"}
    assert all('"no-builtins"' in found for found in attributes.values()), (attributes, VERSIONS)


def test_an_engine_runs_object_code() -> None:
    code = MachineCode(compiled_program("arithmetic"))
    for name in ("add_object_file", "finalize_object", "get_function_address"):
        assert hasattr(code._engine, name), f"ExecutionEngine.{name}: {VERSIONS}"
    assert code.process_address
