"""The P4Runtime v1 server of the switch.

`service` has the gRPC calls; `sessions` and `arbitration` have the controllers, `notifications` and
`packet_io` their messages. `pipelines` has the configs, and `control` one of them with its `entities`;
`batch` is a Write, `reconcile` copies one config's state to another, and `journal` persists it. `p4info`,
`fitting` and `consistency` read, complete and check P4Info, `codecs` converts values, and `status` has the
errors. Modules import later ones only.
"""

from softswitch.p4runtime.service import P4RuntimeServer

__all__ = ["P4RuntimeServer"]
