"""Waits that end by the clock alone. All others end by idle time (`softswitch.progress.IdleLimit`)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from foundation.checkout import ROOT

FOLDERS = (
    "controller", "hosts", "src", "topologies",
    *(f"packages/{name}/src" for name in ("agents", "scripts", "simulator", "softswitch")),
)  # fmt: skip
WAITING = {"acquire", "connect", "create_connection", "join", "result", "settimeout", "wait", "wait_for"}
"""Functions whose last argument may be a limit in s; other functions have a keyword `timeout`."""
ANOTHER_PROCESS = {
    "controller/address.py:accepts_connections": "the kernel of any machine accepts connections",
    "controller/address.py:check_listening": "the kernel of any machine accepts connections",
    "controller/dask_cluster.py:cluster_at": "a scheduler on any machine",
    "controller/program.py:_entities": "a switch whose process is not known",
    "controller/program.py:_read_p4info": "a switch whose process is not known",
    "packages/scripts/src/hotline_scripts/kv/connection.py:_connect": "the kernel accepts connections",
    "packages/scripts/src/hotline_scripts/kv/connection.py:ask": "the rendezvous, at the end of a script",
    "packages/softswitch/src/softswitch/commands/cli.py:_is_listening": "the kernel accepts connections",
    "packages/softswitch/src/softswitch/conformance/client.py:_wait_until_ready": "a switch of any kind",
    "packages/softswitch/src/softswitch/conformance/client.py:__enter__": "a switch of any kind",
    "packages/softswitch/src/softswitch/conformance/client.py:read": "a switch of any kind",
    "packages/softswitch/src/softswitch/conformance/client.py:send": "a switch of any kind",
    "packages/softswitch/src/softswitch/conformance/client.py:set_pipeline": "a switch of any kind",
    "packages/softswitch/src/softswitch/conformance/dataplane.py:_exchange": "a switch of any kind",
    "packages/softswitch/src/softswitch/explain/state.py:_read_entities": "a switch of any kind",
    "packages/softswitch/src/softswitch/explain/state.py:config": "a switch of any kind",
    "packages/softswitch/src/softswitch/p4runtime/peers.py:__init__": "the kernel answers",
    "packages/softswitch/src/softswitch/processes.py:listens": "the kernel accepts connections",
    "packages/softswitch/src/softswitch/runtime/client.py:_describe_silence": "a kernel accepts connections",
    "packages/softswitch/src/softswitch/runtime/client.py:connect": "a switch on any machine",
    "src/foundation/logs/collector.py:send": "each step of a write to a local socket",
}
AT_AN_END = {
    "packages/scripts/src/hotline_scripts/kv/engine.py:close": "a callback, at the end of a script",
    "packages/scripts/src/hotline_scripts/run/process.py:end": "a script, before SIGKILL and after it",
    "packages/softswitch/src/softswitch/running.py:_stop_servers": "calls of clients",
    "src/experiment/liveness.py:has_new_death": "the cause of a failure",
    "topologies/agent_launcher.py:agent_launcher": "the fork server, before SIGKILL",
    "topologies/agents.py:supervise": "the cause of a failure",
    "topologies/signals.py:_exit_by_force": "the run, after Ctrl-C",
    "topologies/signals.py:_handle_signals": "what signals show, after Ctrl-C",
    "topologies/signals.py:_synchronise_with_thread": "the run, after Ctrl-C",
}
"""Ctrl-C ends a run within three seconds."""


def is_limit(value: ast.expr) -> bool:
    """Return whether an argument is a limit in s, and not the time until the next look at a process."""
    text = ast.unparse(value)
    return text.lower().endswith(("timeout_s", "grace_s", "remaining")) or isinstance(value, ast.Constant)


def clock_waits(node: ast.AST, function: str = "") -> Iterator[str]:
    """Yield the functions of a module that wait for a limited time."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        function = node.name
    if isinstance(node, ast.Call):
        limits = [keyword.value for keyword in node.keywords if keyword.arg == "timeout"]
        if ast.unparse(node.func).rpartition(".")[2] in WAITING:
            limits += [value for value in node.args[-1:] if not isinstance(value, ast.Constant)]
        if any(map(is_limit, limits)):
            yield function
    for child in ast.iter_child_nodes(node):
        yield from clock_waits(child, function)


def test_waits_by_the_clock_alone_are_for_other_machines_and_ends() -> None:
    """A process of this machine that is slow is not dead: waits for it end once it lives and sleeps."""
    files = (file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py")))
    found = {
        f"{file.relative_to(ROOT)}:{name}"
        for file in files
        for name in clock_waits(ast.parse(file.read_text()))
    }
    assert found == ANOTHER_PROCESS.keys() | AT_AN_END.keys()
