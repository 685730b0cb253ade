"""Receive packet steering: which files get which CPUs, and that what was there comes back."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from softswitch.cli import command
from softswitch.errors import PortError
from softswitch.kernel.steering import check_cpu, cpu_mask, restore_masks, steer
from switch_harness.wording import mentions, says

QUEUES = ["s1/queues/rx-0", "s1/queues/rx-1", "s2/queues/rx-0"]


@pytest.fixture
def interfaces(tmp_path: Path) -> Path:
    """Files as in sysfs: two and one receive queues, and a transmit queue, which is not steered."""
    for number, queue in enumerate([*QUEUES, "s1/queues/tx-0"]):
        folder = tmp_path / queue
        folder.mkdir(parents=True)
        (folder / "rps_cpus").write_text(f"{number}\n")
    return tmp_path


def masks(interfaces: Path) -> list[str]:
    return [(interfaces / queue / "rps_cpus").read_text().strip() for queue in (*QUEUES, "s1/queues/tx-0")]


@pytest.mark.parametrize(
    ("cpu", "mask"),
    [(0, "00000001"), (5, "00000020"), (31, "80000000"), (32, "00000001,00000000"),
     (70, "00000040,00000000,00000000")],
)  # fmt: skip
def test_a_cpu_is_a_bit(cpu: int, mask: str) -> None:
    assert cpu_mask(cpu) == mask
    assert int(mask.replace(",", ""), 16) == 1 << cpu


def test_steering_of_every_rx_queue_is_set_and_restored(interfaces: Path) -> None:
    before = steer(["s1", "s2"], 1, interfaces)
    assert masks(interfaces) == ["00000002"] * 3 + ["3"]
    restore_masks(before)
    assert masks(interfaces) == ["0", "1", "2", "3"]


def test_steering_of_a_vanished_interface_is_not_restored(interfaces: Path) -> None:
    before = steer(["s1", "s2"], 1, interfaces)
    for path in (interfaces / "s1" / "queues" / "rx-0").glob("*"):
        path.unlink()
    (interfaces / "s1" / "queues" / "rx-0").rmdir()
    restore_masks(before)
    assert (interfaces / "s2" / "queues" / "rx-0" / "rps_cpus").read_text().strip() == "2"
    assert not (interfaces / "s1" / "queues" / "rx-0").exists()


def test_an_interface_that_cannot_be_steered_is_named_and_nothing_is_changed(interfaces: Path) -> None:
    with pytest.raises(PortError, match=mentions("--rps-cpu", 1, interfaces)):
        steer(["s1", "s9"], 1, interfaces)
    assert masks(interfaces) == ["0", "1", "2", "3"]
    last = interfaces / QUEUES[2] / "rps_cpus"
    last.unlink()
    last.mkdir()
    with pytest.raises(PortError, match=rf"^--rps-cpu 1: {last}: Is a directory"):
        steer(["s1", "s2"], 1, interfaces)
    last.rmdir()
    last.write_text("2")
    assert masks(interfaces) == ["0", "1", "2", "3"]


@pytest.mark.parametrize(("online", "cpus"), [("0-3", {0, 1, 2, 3}), ("0,2-3,8\n", {0, 2, 3, 8}), ("0", {0})])
def test_only_a_cpu_that_is_online_will_do(online: str, cpus: set[int]) -> None:
    def will_do(cpu: int) -> bool:
        try:
            check_cpu(cpu, online)
        except PortError as error:
            assert str(error).startswith(f"--rps-cpu {cpu}: ") and str(error).endswith(online.strip())
            return False
        return True

    assert {cpu for cpu in range(12) if will_do(cpu)} == cpus


@pytest.mark.parametrize(
    ("options", "named"),
    [(["--datapath", "sockets"], "--datapath sockets"), (["--hook", "xdp"], "--hook xdp")],
)
def test_sockets_and_xdp_cannot_be_steered(options: list[str], named: str) -> None:
    refused = CliRunner().invoke(command, ["--no-p4", "--rps-cpu", "0", *options])
    assert refused.exit_code == 2
    assert says(refused.output, "--rps-cpu", "--datapath", named)
