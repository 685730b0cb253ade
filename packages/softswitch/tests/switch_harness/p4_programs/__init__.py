"""Random well-typed P4_16 programs for v1model, as source text, with frames for them."""

from switch_harness.p4_programs.drawn import DrawnProgram, drawn_programs, program_of_seed

__all__ = ["DrawnProgram", "drawn_programs", "program_of_seed"]
