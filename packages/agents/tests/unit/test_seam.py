"""A design outside the repository plugs into the loops of sockets and of virtual time, compiled and plain."""

from __future__ import annotations

import re
import select
import socket
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiment.design_parts import initial_rows
from foundation.checkout import ROOT
from foundation.compiled import sources
from foundation.designs.arms import baseline_and_lead
from foundation.designs.registry import NAMES, DesignError, design, known_names, modules_of
from foundation.errors import HotlineError
from hosts.keys import KeySpace
from hosts.sockets import open_udp
from hotline_agents.designs import agents_of
from hotline_agents.interface import NEVER
from hotline_agents.ps.compiled_loop import make_sources, serve
from hotline_agents.ps.service_time import make_service
from hotline_agents.udp import make_udp
from hotline_agents.worker.compiled_loop import ENDED, make_wire, operate
from hotline_simulator.config import SimulationConfig
from hotline_simulator.costs import Network
from hotline_simulator.loop import DRIVER_DUE, NO_EVENTS, resume, run, wake_agent
from hotline_simulator.simulated_switch import SimulatedSwitch
from hotline_simulator.system import SimulatedSystem
from hotline_simulator.world import SimulatedNetwork
from nativekit.plain import plain
from switch_harness.wording import mentions
from tests.designs.echo.agents import WORKERS
from tests.designs.echo.server import make_mirror
from tests.designs.echo.worker import make_numbers

ECHO = "tests.designs.echo"
_SIMULATOR = "packages/simulator/src/hotline_simulator"
ROOMS = ("controller", "hosts", _SIMULATOR, "src", "tools/bench", "topologies")
SERVERS, NUMBERS = 2, 100
USERS = {"hotset": {"collect"}, "none": {"collect", "hotset"}, "switchml": {"exact"}}
"""Designs made of parts of another one."""


@pytest.mark.soak
@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_an_external_design_runs_in_virtual_time(loss: float) -> None:
    """Servers send unasked, workers reach each other, and lost numbers are repeated."""
    echo = design(ECHO)
    config = SimulationConfig(design=ECHO, workers=WORKERS, servers=SERVERS)
    switch = SimulatedSwitch(echo)
    switch.install(initial_rows(config, list(echo.arms)))
    system = SimulatedSystem(
        design=echo, arm=echo.arms[0], space=KeySpace(1), workers=WORKERS, servers=SERVERS,
        network=Network(loss=loss),
    )  # fmt: skip
    network = SimulatedNetwork(system, switch)
    world = network.world
    for w in range(WORKERS):
        world.workers.header[w].pending = NUMBERS
        wake_agent(world, w)
    while (reason := run(world, NEVER)) == DRIVER_DUE:
        w = int(world.header.agent)
        resume(world, w, network.now, network.now if world.workers.header[w].pending else NEVER)
    assert reason == NO_EVENTS and not world.workers.header.pending.any()
    asked, extras = int(world.servers.header.asked.sum()), int(world.workers.header.extras.sum())
    greetings = int(world.workers.header.greetings.sum())
    if loss:
        assert asked > WORKERS * NUMBERS and extras > 0
    else:
        assert asked == WORKERS * NUMBERS and greetings == WORKERS * (NUMBERS // 7)
        assert extras % WORKERS == 0 and extras > 0


@pytest.mark.parametrize("is_plain", [False, True], ids=["compiled", "plain"])
def test_an_external_design_runs_over_sockets(is_plain: bool) -> None:
    """Worker and server take turns, as both loops run in this thread."""
    run_worker: Any = plain(operate) if is_plain else operate
    run_server: Any = plain(serve) if is_plain else serve
    with ExitStack() as stack:
        at_worker, at_server = (stack.enter_context(open_udp(("127.0.0.1", 0))) for _ in range(2))
        addresses = [sock.getsockname() for sock in (at_server, at_worker)]
        wire = make_wire(at_worker.fileno(), addresses, -1, -1)

        poll = stack.enter_context(select.epoll())
        poll.register(at_server.fileno(), select.EPOLLIN)
        sources = make_sources(poll.fileno(), addresses)
        sources.state.data_socket = at_server.fileno()
        worker, server = make_numbers(1, 1, 1), make_mirror(0, 1, 1)
        boxes = [make_udp() for _ in range(2)]
        worker.header.pending = 20
        while worker.header.pending or not worker.header.extras:
            soon = time.monotonic_ns() + 1_000_000
            reason = run_worker(worker, boxes[0], wire, soon)
            assert reason == ENDED or worker.header.pending or not worker.header.extras
            run_server(server, make_service(), boxes[1], sources, soon)
        assert server.header.asked >= 20 and worker.header.extras >= 1 and worker.header.greetings >= 2
        assert isinstance(at_worker, socket.socket)


def test_an_unknown_design_is_an_error() -> None:
    with pytest.raises(DesignError, match=mentions("nothing", "design")):
        design("nothing")
    with pytest.raises(DesignError, match=mentions("tests.designs.nowhere", "design")):
        design("tests.designs.nowhere")
    assert ECHO in known_names() or design(ECHO).name == "echo"


@pytest.mark.parametrize("name", NAMES)
def test_an_edit_in_one_design_recompiles_no_other_design(name: str) -> None:
    """The sources of a design's machine code are the files that its agents import."""
    of_design = {other: set(sources(*modules_of(design(other)))) for other in NAMES}
    folder = Path(sys.modules[agents_of(design(name)).client.__module__].__file__ or "").parent
    own = {file for file in folder.rglob("*.py") if file in of_design[name]}
    assert own, folder
    users = {other for other, files in of_design.items() if files & own}
    assert users - {name} <= USERS.get(name, set())
    assert ROOT / "src" / "foundation" / "protocol" / "rpc.py" in of_design[name]


def test_rooms_that_serve_all_designs_name_no_design() -> None:
    """A room's own part of a design is in a module of the design's name."""
    rooms = ("src/experiment", _SIMULATOR, "src/analysis", "hosts", "src/foundation")
    # `collect` is made of parts of hotset.
    own = {"hotset", "collect"}
    files = {file for room in rooms for file in (ROOT / room).rglob("*.py") if not own & set(file.parts)}
    named = {
        str(file.relative_to(ROOT))
        for file in files
        if file.stem not in own and re.search(r"^(from|import) .*\bhotset\b", file.read_text(), re.M)
    }
    named -= {"src/experiment/hotset_arms.py"}  # the design's own part
    # A figure of coverage, and the neighbours of a hot set, are about nothing else. Which rule chooses the
    # hot set is a setting of designs that prepare one.
    neighbours = {f"{_SIMULATOR}/neighbours/{name}.py" for name in ("noisy", "pushes")}
    neighbours.add(f"{_SIMULATOR}/explain.py")  # explains a push of the default design
    assert named == {"src/analysis/figures/update_coverage.py", "src/experiment/run_config.py", *neighbours}


def test_a_design_is_judged_by_an_arm_beside_its_baseline() -> None:
    assert [arm.name for arm in baseline_and_lead("hotset")] == ["baseline", "offload"]
    with pytest.raises(HotlineError, match=mentions("reference", "design")):
        baseline_and_lead("none")


def test_a_design_is_named_in_its_folders_alone() -> None:
    """No room lists designs; the entry points in `pyproject.toml` do."""
    text = {file: file.read_text() for room in ROOMS for file in (ROOT / room).rglob("*.py")}
    names = {
        str(file.relative_to(ROOT))
        for file, content in text.items()
        if re.search(r"(designs|hosts|controller)\.none\b|^ +\"none\": |NAMES = .*\"none\"", content, re.M)
    }
    assert {name for name in names if "none" not in name} == set()


def test_a_design_without_a_part_is_an_error_that_names_the_part() -> None:
    broken = replace(design("none"), name="broken", agents="hosts.nowhere:AGENTS")
    with pytest.raises(DesignError, match=mentions("hosts.nowhere:AGENTS", "design")):
        agents_of(broken)
    assert agents_of(replace(broken, agents="hotline_agents.none:AGENTS")) is agents_of(design("none"))
