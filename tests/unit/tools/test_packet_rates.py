"""The pages have the published ratios of softswitch's packet rates to BMv2's."""

from __future__ import annotations

from foundation.checkout import ROOT
from tools.evidence.result import published_table


def times_of_bmv2(what: str) -> tuple[str, str]:
    """Return the ratio to BMv2's packet rate by packet sockets, and in the kernel."""
    table = published_table("performance")
    names = ("sockets, or agent", "kernel", "BMv2")
    sockets, kernel, bmv2 = (table.cell(f"{what}: packets/s", name) for name in names)
    assert isinstance(sockets, float) and isinstance(kernel, float) and isinstance(bmv2, float)
    return f"{sockets / bmv2:.0f}", f"{kernel / bmv2:.0f}"


def test_pages_have_the_ratios_of_both_datapaths() -> None:
    sockets, kernel = times_of_bmv2("Hotline, 32 lanes hit")
    l3_sockets, l3_kernel = times_of_bmv2("L3 forwarding")
    pages = ROOT / "docs/results.md", ROOT / "packages/softswitch/README.md"
    results, of_switch = (" ".join(page.read_text().split()) for page in pages)
    assert f"{kernel} in the kernel, the default, and {sockets} by packet sockets" in results
    assert f"[{l3_kernel} times (L3) and {kernel} times (Hotline's program) as many packets]" in of_switch
    assert f"and {l3_sockets} and {sockets} times by packet sockets" in of_switch
