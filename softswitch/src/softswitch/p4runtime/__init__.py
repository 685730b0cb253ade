"""The P4Runtime v1 server of the switch.

`service` the gRPC calls; `sessions` and `arbitration` of controllers, `notifications` to them, `packet_io`,
`tls` · `pipelines` configs; `control` one of them with its `entities`, `batch` a Write on its way,
`reconcile` two · `p4info`, `consistency` · `codecs` of what messages carry, `status` of what is refused.
Arrows go from the first to the last.
"""

from softswitch.p4runtime.service import P4RuntimeServer

__all__ = ["P4RuntimeServer"]
