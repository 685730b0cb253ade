"""Networks from files, of any format that is known."""

from __future__ import annotations

from pathlib import Path

from softswitch.network.json_files import read_json
from softswitch.network.network import Network
from softswitch.network.p4app import read_p4app
from softswitch.network.tutorials import read_topology


def read_network(file: Path, net: Network, sources: Path | None = None) -> None:
    """Add the network of a `topology.json` of p4lang/tutorials, or of a `p4app.json` of p4-utils, to `net`.

    `sources` is searched for P4 source before the folder of the file. Raises `SwitchError`.
    """
    document = read_json(file)
    if "topology" in document:
        read_p4app(file, net, sources)
    elif "hosts" in document and "links" in document:
        read_topology(file, net, sources)
    else:
        raise document.error("`hosts`, `switches` and `links`, or the `topology` of a p4app.json")
