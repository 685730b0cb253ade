"""The reference interpreter: it runs a program's IR packet by packet in plain Python, as BMv2 does."""

from softswitch.interpreter.pipeline import InterpretedPipeline

__all__ = ["InterpretedPipeline"]
