"""Compile the IR to LLVM IR: one module for each part of the pipeline, combined in `pipeline`.

What a packet is: `expressions` P4 arithmetic on `iN` · `wire` headers to and from bytes · `storage` ·
`packet`. What happens to it: `parser` · `controls` · `tables`, `ranked` and `profiles` look entries up,
`prefetch_plan` and `prefetch` beforehand · `statements` · `externs` and `meters` · `calculations`, `hashes`
and `xxh64` · `deparser` · `traffic` and its `pass_queue` between the passes · `waiting` into and out of a
port's queue · `output` records. No module knows absolute addresses: all state is at offsets (`memory.layout`)
from one pointer.
"""
