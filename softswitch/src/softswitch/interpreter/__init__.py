"""The reference interpreter: it runs a program's IR packet by packet in plain Python, as BMv2 does.

`packet` one packet in flight · `expressions` · `statements` of actions · `parser` · `calculations` and
checksums · `externs` counters, registers, random · `meters` · `tables` entries · `profiles` members and
groups · `controls` ingress and egress · `traffic` between the passes, and the deparser · `pipeline` the
`Pipeline` · `observer` callbacks.
"""

from softswitch.interpreter.pipeline import InterpretedPipeline

__all__ = ["InterpretedPipeline"]
