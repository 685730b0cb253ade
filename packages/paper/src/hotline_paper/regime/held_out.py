"""Readings of Pan et al. Fig. 8 and 9: the model is compared with these figures and never fitted to them."""

from __future__ import annotations

from typing import Final

CLUSTERS: Final = {
    "S1": (80, 20),
    "S2": (120, 30),
    "S3": (160, 40),
    "S4": (200, 50),
    "S5": (240, 60),
    "S6": (280, 70),
}
"""Workers and servers (Table 2)."""
SERVERS_BUSY_AT_S6: Final = 0.9
"""Fig. 8: the servers' CPU utilisation rises up to this, and the workers' falls."""
READING_ERROR: Final = 0.05
"""Error of the utilisation that is read off Fig. 8."""
CONNECTIONS_IN_FIG_9: Final = 1_000
"""The number of connections whose added delay is predicted for Fig. 9. The paper's delay of empty RPCs grows
linearly with connections, and its slope is not known to us."""
