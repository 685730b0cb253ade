"""What is read off Pan et al. Fig. 8 and 9, which the model is compared with and never fitted to."""

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
CONNECTIONS_IN_FIG_9: Final = 1_000
"""Fig. 9: the delay of empty RPCs grows linearly with connections. Its slope is not known to us; what is
predicted is the delay that so many connections add."""
