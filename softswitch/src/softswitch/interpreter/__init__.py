"""The readable oracle: runs a program's IR packet by packet in plain Python, with BMv2's meaning.

`packet` one packet in flight · `expressions` · `statements` of actions · `parser` · `calculations` ·
`checksums` · `externs` counters, registers, random · `meters` · `tables` entries · `profiles` members and
groups · `controls` ingress and egress · `deparser` · `traffic` between the passes · `pipeline` the seam ·
`observer` who is told what happens.
"""

from softswitch.interpreter.pipeline import InterpretedPipeline

__all__ = ["InterpretedPipeline"]
