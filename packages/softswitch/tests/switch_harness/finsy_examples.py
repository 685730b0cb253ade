"""Run the tests of finsy's examples on the `simple_switch_grpc` that stands first on the PATH, unedited.

They build networks by Mininet (`mn` on the PATH) as finsy's container image does, with the image's module of
switches, in namespaces of their own, so as root. Examples written for Stratum get a script that turns its
command line into BMv2's; they have no gNMI then. As in finsy's CI, files with failures run again. The
Python of `--python` has finsy's requirements, pytest, pytest-asyncio and shellous.
"""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from switch_harness.namespaces import OWN_NAMESPACES

RUN_S = 300.0
TRIES = 3
_SWITCHES = "ci/demonet/p4switch.py"

# Arguments: a folder for overlays, finsy's p4switch.py, what is added to it, and the command.
_ENTER = """
set -eu
over=$1 switches=$2 waits=$3
shift 3
mount -t tmpfs none "$over"
for at in /etc /usr/local; do
    mkdir -p "$over/upper$at" "$over/work$at"
    mount -t overlay none -o "lowerdir=$at,upperdir=$over/upper$at,workdir=$over/work$at" "$at"
done
mkdir -p /etc/stratum /usr/local/mininet/custom
touch /etc/stratum/dummy.json
ip link add outside type veth peer name world
ip address add 192.0.2.1/24 dev outside
ip link set world up
ip link set outside up
ip route add default dev outside
cat "$switches" "$waits" >/usr/local/mininet/custom/p4switch.py
exec "$@"
"""

# The tests wait 0.25 s for the switches to listen ("FIXME", says their conftest.py).
_WAITS = """

import socket, time

_start = P4RuntimeSwitch.start


def _start_and_wait(self, controllers):
    _start(self, controllers)
    deadline = time.monotonic() + 60
    while socket.socket().connect_ex(("127.0.0.1", self.grpc_port)) and time.monotonic() < deadline:
        time.sleep(0.02)


P4RuntimeSwitch.start = _start_and_wait
"""

_STRATUM = r"""#!/bin/bash
for argument; do
    value=${argument#*=}
    case $argument in
        -device_id=*) device=$value ;;
        -cpu_port=*) cpu=$value ;;
        -external_stratum_urls=*) address=$value ;;
        -bmv2_log_level=*) level=$value ;;
        -chassis_config_file=*) chassis=$value ;;
        -ca_cert_file=*)
            tls+=(--grpc-server-ssl --grpc-server-with-client-auth --grpc-server-cacert "$value") ;;
        -server_cert_file=*) tls+=(--grpc-server-cert "$value") ;;
        -server_key_file=*) tls+=(--grpc-server-key "$value") ;;
    esac
done
ports=$(awk '/^[a-z]/ { port = /^singleton_ports/ } port && $1 == "id:" { id = $2 }
    port && $1 == "name:" { gsub("\"", ""); print "-i", id "@" $2 }' "$chassis")
exec simple_switch_grpc --no-p4 --log-console --log-level "$level" --device-id "$device" $ports -- \
    --cpu-port "$cpu" --grpc-server-addr "$address" "${tls[@]}"
"""
# Finsy's image has a BMv2 without Thrift, so that all switches may have the same port.
_SIMPLE_SWITCH_GRPC = """#!/bin/sh
port=$(printf '%s ' "$@" | sed -E 's/.*--grpc-server-addr [^ ]*:5([0-9]+) .*/4\\1/')
exec {programs}/simple_switch_grpc --thrift-port "$port" "$@"
"""
# Mininet awaits iperf's report about its `telnet -e A ADDRESS PORT`; iperf 2.1 reports no empty connection.
_TELNET = "#!/bin/bash\nexec 3<>/dev/tcp/$3/$4 && echo Connected && head -c 4096 /dev/zero >&3\n"
_NOTHING = "#!/bin/sh\n"


def run_finsy(checkout: Path, python: str, programs: Path, only: re.Pattern[str]) -> dict[str, bool]:
    """Return whether each test of examples/tests passed, at one of the tries."""
    with TemporaryDirectory() as folder:
        tools = Path(folder) / "bin"
        tools.mkdir()
        texts = {
            "stratum_bmv2": _STRATUM,
            "simple_switch_grpc": _SIMPLE_SWITCH_GRPC.format(programs=programs),
            "telnet": _TELNET,
            "apt-get": _NOTHING,
        }
        for name, text in texts.items():
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        files = sorted((checkout / "examples" / "tests").glob("test_*.py"))
        found: dict[str, bool] = {}
        for file in (each for each in files if only.search(each.stem)):
            results = _run(checkout, file, python, tools, Path(folder))
            for _ in range(TRIES - 1):
                if not all(results.values()):  # the whole file, because its tests build on each other
                    again = _run(checkout, file, python, tools, Path(folder))
                    results = {name: again.get(name, False) or is_ok for name, is_ok in results.items()}
            found |= results
        return found


def _run(checkout: Path, tests: Path, python: str, tools: Path, folder: Path) -> dict[str, bool]:
    (folder / "over").mkdir(exist_ok=True)
    waits = folder / "waits.py"
    waits.write_text(_WAITS)
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    pytest = [python, "-m", "pytest", "-q", f"--junitxml={report}", str(tests)]
    command = [OWN_NAMESPACES, "sh", "-c", _ENTER, "sh", folder / "over", checkout / _SWITCHES, waits]
    environment = {**os.environ, "PYTHONPATH": "..", "PATH": f"{tools}:{os.environ['PATH']}"}
    with suppress(subprocess.TimeoutExpired), (folder / "printed").open("w") as printed:
        subprocess.run(
            [*map(str, command), *pytest],
            cwd=checkout / "examples",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            timeout=RUN_S,
        )
    return verdicts(report.read_text()) if report.exists() else {tests.stem: False}


def verdicts(report: str) -> dict[str, bool]:
    """Return whether each test of a JUnit report that was not skipped passed, by its module and name."""
    return {
        f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}": not {"failure", "error"}
        & {child.tag for child in case}
        for case in ElementTree.fromstring(report).iter("testcase")
        if case.find("skipped") is None
    }
