"""BMv2 JSON -> IR. What this switch does not implement is refused here, with its P4 source line.

The format is described in behavioral-model, docs/JSON_format.md (version 2.23). `scope` what names stand
for · `expressions` · `statements` of actions · `parser` · `calculations` · `tables` · `controls` · `program`
the whole.
"""

from softswitch.load.program import load_program

__all__ = ["load_program"]
