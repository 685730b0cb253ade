"""run.toml: the configuration is valid, or an error names the invalid setting."""

from __future__ import annotations

from collections.abc import Hashable

from experiment.run_config import Config, load_config
from tools.fuzz.target import ROOT, Target, scratch

WORDS = (
    b"true", b"nan", b"-inf", b"1e400", b"0x", b"1979-05-27T07:32:00Z", b"[", b"]", b"{", b"}", b"=", b".",
    b'"', b"'''", b"\n", b"#", b'"\\u0000"', b'"\\n"', b"9" * 30,
)  # fmt: skip


def run(data: bytes) -> Hashable:
    path = scratch() / "run.toml"
    path.write_bytes(data)
    config = load_config([f"CONFIG={path}"])
    assert Config.model_validate(config.model_dump(exclude_unset=True)) == config
    assert ALWAYS_MEASURED in {arm.name for arm in config.measured_arms} and config.lanes_to_profile > 0
    # `str` of faults must not raise.
    assert str(config.faults) is not None and config.workload.shape().parameters > 0
    return config.target, config.has_room_for_profile, len(config.offloaded_arms)


ALWAYS_MEASURED = "baseline"


def seeds() -> list[bytes]:
    settings = b"""target = "softswitch"
workers = 3
arms = ["baseline", "offload-proxy"]
loads = [0.25, 0.5]
data = "x.libsvm"
top_k = 100
[faults]
loss = 0.01
[placement]
switch = 0
[server]
ns_per_rpc = 5
[workload]
parameters = 1000
hot_parameters = 10
"""
    return [(ROOT / "run.toml").read_bytes(), settings, b"server.cores = 2\n[worker]\ncompute_ns = 1\n"]


TOKENS = (*(name.encode() for name in Config.model_fields), *WORDS)
TARGET = Target(
    "run_toml", run, ("src/experiment/run_config.py", "hosts/workload/generator.py"), seeds, TOKENS
)
