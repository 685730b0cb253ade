"""The commands of README that make machines of one machine's namespaces."""

from __future__ import annotations

import json
import subprocess
from textwrap import dedent

from foundation.checkout import ROOT

MARK = "<!-- commands of machines -->"
NEXT_HEADING = "The scheduler is on the bridge"


def test_machines_of_the_readme_reach_the_bridge() -> None:
    page = (ROOT / "packages/machines/README.md").read_text()
    commands = dedent(page.partition(MARK)[2].partition(NEXT_HEADING)[0])
    route_to_bridge = "ip netns exec machine2 ip -json route get 192.0.2.254"
    reach_the_other = "ip netns exec machine1 ping -qc1 192.0.2.2 >&2"
    script = f"mount -t tmpfs none /run; {commands}{route_to_bridge}; {reach_the_other}"
    command = ["unshare", "--net", "--mount", "sh", "-euc", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    [route] = json.loads(done.stdout)
    assert (route["prefsrc"], route["dev"]) == ("192.0.2.2", "eth0")
