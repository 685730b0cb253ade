"""Networks of leaves and a spine on Mininet: the example of many switches, and runs with hot sets."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from click.testing import Result

from experiment.run_config import Config, config_of
from experiment.session import HOT_SET_FILE
from foundation.checkout import ROOT
from foundation.designs.hotset import OFFLOAD
from foundation.protocol.addressing import interface
from foundation.protocol.hashing import ps_ids_of
from foundation.protocol.leaf_spine import SPINE
from switch_harness.wording import says
from tests.harness.cli import invoke
from tests.mininet.run_topo import (
    FEWER_KEYS,
    Traces,
    command_line,
    finished_run,
    record_of,
    rpcs_to_servers,
    run_topo,
)
from tests.mininet.test_recovery import RECOVERY
from topologies.cpu_placement import place as place_agents

pytestmark = pytest.mark.mininet
WORKER_LEAVES, SUMS = ("HOT_SETS=worker-leaves", "DESIGN=collect"), ["collect-baseline", "collect"]
SCRIPT = ROOT / "examples" / "leaf_spine" / "leaf_spine.py"


def test_all_hosts_of_the_leaf_spine_example_reach_each_other() -> None:
    programs = Path(sys.executable).parent
    done = subprocess.run(
        [sys.executable, SCRIPT, "--leaves", "3", "--spines", "2"],
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ready, memory, pings = done.stdout.splitlines()
    assert ready.startswith("5 switches were ready after")
    assert float(re.findall(r"[\d.]+", memory)[0]) > 0
    assert pings == "0 of 6 pings were lost"


def test_both_ends_of_links_have_their_bandwidths(tmp_path: Path) -> None:
    """Of cables 40 Mbit/s, and of the uplinks of leaves with three hosts each a quarter of 120 Mbit/s."""
    from topologies.network import network  # imports Mininet

    settings = {"topology": "leaf-spine", "cable_mbit": 40, "oversubscription": 4}
    config = config_of(Config, settings)
    placement = place_agents(config.placement, config.servers, config.workers)
    with network(config, placement, tmp_path) as built:
        hosts = [*built.workers, *built.servers]
        at_switches = json.loads(subprocess.check_output(["tc", "-j", "qdisc", "show"]))
        at_hosts = [each for host in hosts for each in json.loads(host.cmd("tc -j qdisc show"))]
    bits = {each["dev"]: 8 * each["options"]["rate"] for each in at_switches if each["kind"] == "tbf"}
    topology = config.leaf_spine
    assert topology is not None
    uplinks = {interface(port, switch) for end in topology.port_peers().items() for switch, port in end}
    assert bits.keys() == set(config.switch_interfaces)
    assert {name: rate for name, rate in bits.items() if name in uplinks} == dict.fromkeys(uplinks, 30e6)
    assert {rate for name, rate in bits.items() if name not in uplinks} == {40e6}
    assert [8 * each["options"]["rate"] for each in at_hosts if each["kind"] == "tbf"] == [40e6] * len(hosts)


@pytest.mark.parametrize(("place", "spines"), [("spine", 2), ("leaves", 1)])
def test_a_run_with_hot_sets_at_several_switches_of_a_network_loses_nothing(
    tmp_path: Path, place: str, spines: int
) -> None:
    arms, small = ["baseline", "offload", "offload-proxy"], {**FEWER_KEYS, "spines": spines}
    run = finished_run(tmp_path, "TOPOLOGY=leaf-spine", f"HOT_SETS={place}", arms=arms, small=small)
    accounting = record_of(run.folder)["accounting"]
    assert (accounting["lost"], accounting["unknown"], accounting["mismatched_keys"]) == (0, 0, 0)
    assert accounting["sent"] == accounting["applied"] > 10_000
    to_servers = rpcs_to_servers(run.folder)
    assert to_servers["offload"] < 0.8 * to_servers["baseline"]
    assert to_servers["offload-proxy"] < 0.8 * to_servers["baseline"]


def test_a_sprayed_run_with_servers_at_a_leaf_of_their_own_loses_nothing(tmp_path: Path) -> None:
    """The leaf of both workers, s3, sums; that of both servers, s4, and the spines pass packets on."""
    run = finished_run(
        tmp_path, "TOPOLOGY=leaf-spine", *WORKER_LEAVES, "SPINES=2", "HOSTS_PER_LEAF=2", "ROUTING=spray",
        "PCAP=1", arms=SUMS, small=FEWER_KEYS,
    )  # fmt: skip
    accounting = record_of(run.folder)["accounting"]
    assert (accounting["lost"], accounting["unknown"], accounting["mismatched_keys"]) == (0, 0, 0)
    assert accounting["sent"] == accounting["applied"] > 10_000
    to_servers = rpcs_to_servers(run.folder)
    assert to_servers["collect"] < 0.8 * to_servers["collect-baseline"]
    captured = {file.stem: file.stat().st_size for file in (run.folder / "pcap").glob("s[12]-eth*.pcap")}
    assert sorted(captured) == ["s1-eth1", "s1-eth2", "s2-eth1", "s2-eth2"]
    assert min(captured.values()) > 0.8 * max(captured.values()) > 100_000


def test_moves_between_levels_of_a_running_network_lose_no_update(tmp_path: Path) -> None:
    """Fifty rows of a leaf move to the spine, which gets none before the leaf has given them back."""
    with run_topo(
        tmp_path,
        "TOPOLOGY=leaf-spine",
        "HOT_SETS=both",
        "ROUNDS=12",
        arms=["baseline", "offload"],
        small=FEWER_KEYS,
    ) as run:
        run.wait_for(lambda: any(run.runs.glob(f"*/{HOT_SET_FILE}")))
        [file] = run.runs.glob(f"*/{HOT_SET_FILE}")
        hot_set = pl.read_parquet(file)
        at_spine, below = hot_set[: len(hot_set) // 2], hot_set[len(hot_set) // 2 :]
        at_leaf = below.filter(pl.Series(ps_ids_of(below["key"].to_numpy(), 2) == 0))
        assert len(at_leaf) > 60

        def options(switch: int) -> tuple[str, ...]:
            return "--switch", f"127.0.0.1:{run.port + switch}"

        def has_rows(switch: int, rows: pl.DataFrame) -> bool:
            status = invoke("status", *options(switch), "--json")
            jobs = json.loads(status.stdout)["jobs"] if status.exit_code == 0 else []
            return {job["job"]: job["entries"]["hot"] for job in jobs}.get(OFFLOAD.job) == len(rows)

        def load(switch: int, rows: pl.DataFrame) -> Result:
            part, ranks = tmp_path / "rows.parquet", pl.int_range(1, pl.len() + 1, dtype=pl.UInt32)
            rows.with_columns(rank=ranks).write_parquet(part)
            return invoke("load", part, "--job", OFFLOAD.job, *options(switch))

        run.wait_for(lambda: has_rows(1, at_leaf) and has_rows(SPINE, at_spine))
        more_at_spine = pl.concat([at_spine, at_leaf[:50]])
        refused = load(SPINE, more_at_spine)
        assert refused.exit_code == 1 and says(refused.stderr, "another switch", "nothing was changed")
        for switch, rows in ((1, at_leaf[50:]), (SPINE, more_at_spine)):
            loaded = load(switch, rows)
            assert loaded.exit_code == 0, loaded.stderr
        assert run.wait() == 0, run.errors
    accounting = record_of(run.folder)["accounting"]
    assert (accounting["lost"], accounting["unknown"], accounting["mismatched_keys"]) == (0, 0, 0)
    assert accounting["sent"] == accounting["applied"] > 10_000
    to_servers = rpcs_to_servers(run.folder)
    assert to_servers["offload"] < 0.8 * to_servers["baseline"]


def test_a_worker_takes_the_rank_of_a_killed_one_at_its_leaf(tmp_path: Path) -> None:
    """Each of two leaves sums the hot rows of its own workers, and the killed worker's sums are kept."""
    run = finished_run(
        tmp_path, "TOPOLOGY=leaf-spine", *WORKER_LEAVES, "ROUNDS=4", arms=SUMS, small=FEWER_KEYS,
        after_death="wait", kill=["2@1"],
    )  # fmt: skip
    record = record_of(run.folder)
    accounting, changes = record["accounting"], record["worker_changes"]
    assert [(each["worker"], each["change"]) for each in changes] == [
        ("worker-2", "died"), ("worker-2", "joined"),
    ]  # fmt: skip
    assert (accounting["lost"], accounting["mismatched_keys"]) == (0, 0)
    to_servers = rpcs_to_servers(run.folder)
    assert to_servers["collect"] < 0.8 * to_servers["collect-baseline"]


@pytest.mark.parametrize(
    ("settings", "arms"),
    [
        (("HOT_SETS=spine",), ["baseline", "offload"]),
        (("HOT_SETS=both",), ["baseline", "offload"]),
        (WORKER_LEAVES, SUMS),
    ],
)
def test_a_killed_spine_and_a_killed_leaf_lose_no_update(
    tmp_path: Path, settings: tuple[str, ...], arms: list[str]
) -> None:
    """The spine has the hot set and leaves pass packets on, or both have a part; s3 is the second leaf."""
    with run_topo(
        tmp_path, "TOPOLOGY=leaf-spine", *settings, "ROUNDS=12", tables=RECOVERY, arms=arms, small=FEWER_KEYS
    ) as run:
        for block, name in ((3, "s1"), (9, "s3")):
            run.wait_for_parts(f"operations-worker-1-{block}.parquet")
            [switch] = [pid for pid in run.agents("softswitch") if f"{name}-eth" in command_line(pid)]
            os.kill(switch, signal.SIGKILL)
        assert run.wait() == 0, run.errors
    accounting = record_of(run.folder)["accounting"]
    assert accounting["restarts"] == {"s1": 1, "s3": 1}
    assert (accounting["lost"], accounting["unknown"], accounting["mismatched_keys"]) == (0, 0, 0)


def test_a_killed_leaf_ends_the_run_with_an_error_with_the_name_of_the_leaf(tmp_path: Path) -> None:
    with run_topo(tmp_path, "TOPOLOGY=leaf-spine", "ROUNDS=20", small=FEWER_KEYS) as run:
        run.wait_for_parts("operations-worker-1-0.parquet")
        [leaf] = [pid for pid in run.agents("softswitch") if "s2-eth" in command_line(pid)]
        os.kill(leaf, signal.SIGKILL)
        assert run.wait() == 1
    assert says(run.errors, "s2:", "-9"), run.errors
    assert Traces.look() == Traces(frozenset(), frozenset())
