"""`hotline up`, scripts of an unprivileged user, a hot set meanwhile, and `hotline down`, which cleans up."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from controller.hotset import choice
from foundation.protocol.rows import RowRange
from switch_harness.waiting import wait_for
from switch_harness.wording import says, says_in_one_line
from tests.harness.children import child
from tests.harness.cli import write_hot_set
from tests.mininet.run_topo import command_line
from topologies.run_lock import find_marked_processes

pytestmark = [pytest.mark.mininet, pytest.mark.soak]
ROOT = Path(__file__).parents[2]
TEMPORARY = Path(tempfile.gettempdir())
PATIENCE_S = 240
PORT = 9_595
NOBODY = 65534
WORKERS, ROWS, DIM, STEPS = 2, 400, 4, 40
# Ends its first half where the test has it: when a file is there.
SCRIPT = f"""
import sys, time
from pathlib import Path
import numpy as np
import hotline

go_on = Path(sys.argv[1])
with hotline.Worker({{"rows": ({ROWS}, {DIM}), "bias": (1, 1)}}, scale=1.0) as kv:
    random = np.random.default_rng(kv.rank)
    sums = np.zeros(({ROWS}, {DIM}))
    out = np.zeros(({ROWS}, {DIM}), np.float32)
    kv.init(np.full(({ROWS}, {DIM}), 5, np.float32), "rows")
    kv.barrier()
    print("trains", flush=True)
    step = 0
    while step < {STEPS} or not go_on.exists():
        keys = random.choice({ROWS}, 50, replace=False)
        values = random.integers(-9, 10, (50, {DIM})).astype(np.float32)
        sums[keys] += values
        kv.wait(kv.push_pull(keys, values, out[:50], "rows"))
        kv.push([0], np.ones(1, np.float32), "bias")
        step += 1
    kv.barrier()
    np.savez(sys.argv[2], sums=sums, found=kv.read("rows"), bias=kv.read("bias"), steps=step)
    kv.barrier()
"""


def hotline(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hotline.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


def bring_up(settings: Path) -> dict[str, Any]:
    """Run `hotline up`; return what it prints."""
    ran = hotline("up", str(settings), "--json")
    assert ran.returncode == 0, ran.stderr
    up: dict[str, Any] = json.loads(ran.stdout)
    return up


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "mine.toml"
    file.write_text(
        f"workers = {WORKERS}\nservers = 2\np4runtime_port = {PORT}\n"
        f"runs = {json.dumps(str(tmp_path / 'runs'))}\n"
    )
    yield file
    assert hotline("down").returncode == 0


@pytest.mark.parametrize("topology", ["switch", "leaf-spine"])
def test_scripts_without_root_train_while_a_hot_set_is_loaded(
    settings: Path, tmp_path: Path, topology: str
) -> None:
    settings.write_text(f'{settings.read_text()}topology = "{topology}"\n')
    up = bring_up(settings)
    assert up["workers"] == WORKERS and Path(up["connect"]).is_socket()
    second = hotline("up", str(settings))
    assert second.returncode == 1 and up["connect"] in second.stderr
    open_to_all = tmp_path / "out"
    open_to_all.mkdir()
    ours = [each for each in tmp_path.parents if each != TEMPORARY and each.is_relative_to(TEMPORARY)]
    for path in (open_to_all, tmp_path, *ours):
        path.chmod(0o777 if path == open_to_all else 0o755)
    machine_code_for_nobody(tmp_path / "cache")
    go_on, script = tmp_path / "go-on", tmp_path / "train.py"
    script.write_text(SCRIPT)
    scripts = [
        subprocess.Popen(
            [sys.executable, str(script), str(go_on), str(open_to_all / f"{number}.npz")],
            stdout=subprocess.PIPE, text=True, user=NOBODY, group=NOBODY, extra_groups=[],
            env={**os.environ, "HOTLINE_CONNECT": up["connect"], "XDG_CACHE_HOME": str(tmp_path / "cache")},
        )
        for number in range(WORKERS)
    ]  # fmt: skip
    try:
        for each in scripts:
            assert each.stdout is not None and each.stdout.readline() == "trains\n"
        at_switch = ["--switch", up["switch"], "--job", str(up["job"])]
        # The keys of tables follow each other in the order of their names: `bias`, then `rows`.
        updates, ranges = dict.fromkeys(range(1, 201), 1), (RowRange(0, 1), RowRange(1, DIM))
        refused = hotline("load", *at_switch, write_hot_set(tmp_path, updates))
        assert refused.returncode == 1 and f"expected {DIM}, as the rows of job" in refused.stderr
        assert f"--dims 0=1,1={DIM}" in refused.stderr
        loaded = hotline("load", *at_switch, write_hot_set(tmp_path, updates, ranges))
        assert loaded.returncode == 0, loaded.stderr
        go_on.touch()
        assert [each.wait(PATIENCE_S) for each in scripts] == [0, 0]
    finally:
        for each in scripts:
            each.kill()
            each.communicate()
    found = [np.load(open_to_all / f"{number}.npz") for number in range(WORKERS)]
    for each in found:
        assert (each["found"] == 5 + sum(other["sums"] for other in found)).all()
        assert each["bias"] == sum(int(other["steps"]) for other in found)
    # What the servers counted makes the next hot set; the switch served the rest.
    log = Path(up["folder"]) / "updates.parquet"
    wait_for(log.exists)
    assert min(choice.build([log], 10)["updates"].to_list()) > 0
    down = hotline("down")
    assert (down.returncode, down.stderr) == (0, "") and not Path(up["connect"]).exists()
    assert rules() == []


TWO_SESSIONS = f"""
import os, sys
import numpy as np
import hotline

kv = hotline.Worker({{"rows": ({ROWS}, 1)}}, scale=1.0)
kv.report(loss=float(sys.argv[1]))
for _ in range(50):
    kv.push(np.arange({ROWS}), np.ones({ROWS}, np.float32))
if sys.argv[2] == "vanishes":
    os._exit(0)
if sys.argv[2] == "waits":
    kv.barrier()
"""


def test_sessions_of_scripts_that_do_not_close_keep_their_files(settings: Path, tmp_path: Path) -> None:
    """One script ends, one waits for a second worker until Ctrl-C, and one vanishes."""
    up = bring_up(settings)
    folder = Path(up["folder"])

    def start(number: int, end: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", TWO_SESSIONS, str(number), end]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def sessions() -> int:
        return (folder / "up.log").read_text().count("the session is over")

    script = start(1, "ends")
    assert script.communicate(timeout=PATIENCE_S)[1] == "" and script.returncode == 0
    wait_for((folder / "updates.parquet").exists)
    assert pl.read_parquet(folder / "updates.parquet")["updates"].to_list() == [50] * ROWS
    assert reported(folder / "reports.jsonl") == [1.0]
    script = start(2, "waits")
    assert script.stderr is not None
    assert says_in_one_line(script.stderr.readline(), "barrier", "worker 1")
    script.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in script.communicate(timeout=PATIENCE_S)[1]
    assert script.returncode == -signal.SIGINT
    wait_for((folder / "updates-1.parquet").exists)
    wait_for(lambda: sessions() == 2)
    script = start(3, "vanishes")
    script.communicate(timeout=PATIENCE_S)
    wait_for(lambda: sessions() == 3)
    assert reported(folder / "reports-1.jsonl") == [1.0] and reported(folder / "reports-2.jsonl") == [2.0]
    assert reported(folder / "reports.jsonl") == [3.0]
    assert says(hotline("down").stdout, 2, "workers")


STOPPED_SERVER = f"""
import sys
from pathlib import Path
import numpy as np
import hotline
from hotline_scripts.kv import engine

engine.SILENCE_S = 0.5
steps, values = 0, np.ones({ROWS}, np.float32)
with hotline.Worker({{"rows": ({ROWS}, 1)}}, scale=1.0) as kv:
    print("trains", flush=True)
    while not Path(sys.argv[1]).exists():
        kv.wait(kv.push(np.arange({ROWS}), values))
        steps += 1
    assert (kv.read() == steps).all()
"""


def test_a_session_outlasts_a_server_that_is_stopped_for_longer_than_the_limit(
    settings: Path, tmp_path: Path
) -> None:
    settings.write_text(settings.read_text().replace(f"workers = {WORKERS}", "workers = 1"))
    up, go_on = bring_up(settings), tmp_path / "go-on"
    command = [sys.executable, "-c", STOPPED_SERVER, str(go_on)]
    pipe = subprocess.PIPE
    with child(command, stdout=pipe, stderr=pipe) as script:
        assert script.stdout is not None and script.stdout.readline() == "trains\n"
        assert script.stderr is not None
        server = next(
            each for each in find_marked_processes() if "\0hotline_agents.ps\0" in command_line(each)
        )
        os.kill(server, signal.SIGSTOP)
        try:
            assert says_in_one_line(script.stderr.readline(), "server", "lives", "stopped")
            # The log of `up` has a note once the limit has passed.
            wait_for(lambda: "waiting for answer of server" in (Path(up["folder"]) / "up.log").read_text())
            for shown_by in (["status"], ["watch", "--count", "1"]):
                shown = hotline(*shown_by, "--switch", up["switch"], "--json")
                members = {each["name"]: each for each in json.loads(shown.stdout)["members"]}
                assert members.keys() == {"worker 0", "ps-0", "ps-1"}
                assert [each["state"] for each in members.values()].count("is stopped (SIGSTOP)") == 1
                assert min(each["frames"] for each in members.values()) > 0
        finally:
            os.kill(server, signal.SIGCONT)
        go_on.touch()
        output, errors = script.communicate(timeout=PATIENCE_S)
        assert (script.returncode, output, errors) == (0, "", "")


UNTIL_THE_END = f"""
import sys
from pathlib import Path
import numpy as np
import hotline

rank, log, ends = int(sys.argv[1]), open(sys.argv[2], "wb", buffering=0), Path(sys.argv[3])
with hotline.Worker({{"rows": ({ROWS}, {DIM})}}, scale=1.0, rank=rank) as kv:
    print(kv.life, flush=True)
    while not ends.exists():
        log.write(b"(")
        kv.wait(kv.push(np.arange({ROWS}), np.ones(({ROWS}, {DIM}), np.float32)))
        log.write(b")")
    kv.barrier()
    np.save(sys.argv[2], kv.read())
    kv.barrier()
"""


def test_a_push_of_a_killed_worker_counts_at_most_once_while_a_successor_trains(
    settings: Path, tmp_path: Path
) -> None:
    """Half of the rows are in the switch. Rank 1 is killed twice; rank 0 trains all the time."""
    settings.write_text(f'after_death = "wait"\n{settings.read_text()}')
    up, ends = bring_up(settings), tmp_path / "ends"
    updates = write_hot_set(tmp_path, dict.fromkeys(range(ROWS // 2), 1), (RowRange(0, DIM),))

    def start(rank: int, life: int) -> subprocess.Popen[str]:
        arguments = [str(rank), str(log_of(rank, life)), str(ends)]
        script = subprocess.Popen(
            [sys.executable, "-c", UNTIL_THE_END, *arguments], stdout=subprocess.PIPE, text=True
        )
        assert script.stdout is not None and script.stdout.readline() == f"{life}\n"
        return script

    def log_of(rank: int, life: int) -> Path:
        return tmp_path / f"{rank}-{life}"

    def pushes(rank: int, life: int, mark: bytes = b")") -> int:
        return log_of(rank, life).read_bytes().count(mark)

    def more_pushes(rank: int, life: int) -> None:
        enough = pushes(rank, life) + 20
        wait_for(lambda: pushes(rank, life) >= enough)

    first, second = start(0, 0), start(1, 0)
    try:
        loaded = hotline("load", "--switch", up["switch"], "--job", str(up["job"]), updates)
        assert loaded.returncode == 0, loaded.stderr
        for life in range(2):
            more_pushes(1, life)
            second.kill()
            second.communicate()
            more_pushes(0, 0)
            second = start(1, life + 1)
        more_pushes(1, 2)
        ends.touch()
        assert (first.wait(PATIENCE_S), second.wait(PATIENCE_S)) == (0, 0)
    finally:
        for each in (first, second):
            each.kill()
            each.communicate()
    lives = [(0, 0), (1, 0), (1, 1), (1, 2)]
    acknowledged = sum(pushes(*life) for life in lives)
    sent = sum(pushes(*life, mark=b"(") for life in lives)
    assert acknowledged + 2 >= sent
    for last in (lives[0], lives[-1]):
        found = np.load(f"{log_of(*last)}.npy")
        assert (found == found[:, :1]).all(), "a row has all of a push or nothing"
        assert found.min() >= acknowledged and found.max() <= sent


ADDS = f"""
import subprocess, sys
import numpy as np
import hotline

switch, job, hot = sys.argv[1:]
load = [sys.executable, "-m", "hotline.cli", "load", "--switch", switch, "--job", job, hot]
with hotline.Worker({{"rows": ({ROWS}, {DIM})}}, scale=1.0) as kv:
    kv.init(np.full(({ROWS}, {DIM}), 5, np.float32))
    for step in range(10):
        if step == 2:
            subprocess.run(load, check=True, stdout=subprocess.DEVNULL)
        kv.wait(kv.push(np.arange({ROWS}), np.ones(({ROWS}, {DIM}), np.float32)))
    found = kv.read()
    print(found.min(), found.max())
"""


@pytest.mark.parametrize("way", ["down", "kill"])
def test_a_model_of_which_half_was_in_the_switch_outlives_its_session_and_hotline_up(
    way: str, settings: Path, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "model.npz"
    text = settings.read_text().replace(f"workers = {WORKERS}", "workers = 1")
    settings.write_text(f"{text}[checkpoint]\nfile = {json.dumps(str(checkpoint))}\n")
    updates = write_hot_set(tmp_path, dict.fromkeys(range(ROWS // 2), 1), (RowRange(0, DIM),))
    for expected in ("15.0 15.0\n", "25.0 25.0\n"):
        up = bring_up(settings)
        command = [sys.executable, "-c", ADDS, up["switch"], str(up["job"]), updates]
        ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S)
        assert (ran.returncode, ran.stdout) == (0, expected)
        wait_for(checkpoint.exists)
        if way == "kill":
            wait_for(lambda: "checkpoint: " in (tmp_path / "runs/up/up.log").read_text())
            os.kill(process_of_up(settings), signal.SIGKILL)
        assert hotline("down").returncode == 0
    with np.load(checkpoint) as archive:
        assert (archive["rows"] == 25).all()


def process_of_up(settings: Path) -> int:
    """Return the process that another `hotline up` names."""
    return int(hotline("up", str(settings)).stderr.partition("process ")[2].partition(",")[0])


def reported(file: Path) -> list[float]:
    return [json.loads(line)["metrics"]["loss"] for line in file.read_text().splitlines()]


def test_down_removes_the_remains_of_a_killed_hotline_up(settings: Path) -> None:
    up = bring_up(settings)
    os.kill(process_of_up(settings), signal.SIGKILL)
    assert rules() != []
    down = hotline("down")
    assert down.returncode == 0 and "s1-eth1" in down.stdout
    assert not Path(up["connect"]).exists() and rules() == []


def machine_code_for_nobody(cache: Path) -> None:
    """Copy the compiled code to the cache of the script's user, who would take a minute to compile it."""
    for made in ROOT.glob("[a-z]*/**/__pycache__/compiled-*"):
        shutil.copytree(made, cache / "hotline" / made.parents[1].name / made.name, dirs_exist_ok=True)
    for path in (cache, *cache.rglob("*")):
        os.chown(path, NOBODY, NOBODY)


def rules() -> list[str]:
    printed = subprocess.run(["ip", "rule"], capture_output=True, text=True).stdout
    return [line for line in printed.splitlines() if line.startswith("9590:")]


ADAGRAD = """
import subprocess, sys
import numpy as np
import hotline

out, gradient, steps = np.empty((8, 4), np.float32), np.ones((8, 4), np.float32), 4
switch, job, hot = sys.argv[1:]
load = [sys.executable, "-m", "hotline.cli", "load", "--switch", switch, "--job", job, hot]
with hotline.Worker(tables={"users": (100, 4)}, optimiser={"users": "adagrad(lr=0.5)"}) as kv:
    for step in range(steps):
        if step == 1:
            subprocess.run(load, check=True)
        kv.wait(kv.push(np.arange(8), gradient, "users"))
        kv.barrier()
        kv.wait(kv.pull(np.arange(8), out, "users"))
        value = -0.5 * sum(1 / np.sqrt(k) for k in range(1, step + 2))
        assert np.allclose(out, value, atol=1e-6), (step, out)
"""


def test_a_barrier_publishes_the_sums_that_the_switch_has_added(settings: Path, tmp_path: Path) -> None:
    """One worker trains as Adagrad would, before and after its parameters enter the switch."""
    text = settings.read_text().replace(f"workers = {WORKERS}", 'workers = 1\ndesign = "collect"')
    settings.write_text(text)
    script = tmp_path / "train.py"
    script.write_text(ADAGRAD)
    up = bring_up(settings)
    hot = write_hot_set(tmp_path, dict.fromkeys(range(32), 1), (RowRange(0, 4),))
    command = [sys.executable, str(script), up["switch"], str(up["job"]), hot]
    trained = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert trained.returncode == 0, trained.stderr
    assert "32 seeded" in trained.stdout
