"""The readable oracle: runs a program's IR packet by packet in plain Python, with BMv2's meaning.

`packet` one packet in flight · `expressions` · `statements` of actions · `parser` · `calculations` hashes and
checksums · `meters` · `externs` counters, registers, random · `tables` entries, profiles, selection ·
`controls` ingress and egress · `traffic` what happens between and after them · `pipeline` the seam.
"""

from softswitch.interpreter.pipeline import InterpretedPipeline

__all__ = ["InterpretedPipeline"]
