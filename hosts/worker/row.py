"""One answered RPC, as the logs of all designs have it."""

from __future__ import annotations

import numpy as np

from nativekit.records import record

ROW = record(
    "t0", "arrival", "w_proc", "w_queue", ("ps_proc", np.uint32), ("ps_queue", np.uint32),
    ("residence_us", np.uint32), ("iteration", np.uint32), ("attempts", np.uint32), ("ps", np.uint16),
    ("request_bytes", np.uint16), ("response_bytes", np.uint16), ("op", np.uint8), ("lanes", np.uint8),
    ("served", np.uint8), ("unused", np.uint8, (3,)),
)  # fmt: skip
"""Times in ns, sizes of the UDP payload in bytes; `lanes` are parameters, of which the switch has `served`
some."""
