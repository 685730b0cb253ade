"""IR -> LLVM IR: one module a part of the pipeline, put together in `pipeline`.

What a packet is: `expressions` P4 arithmetic on `iN` · `wire` headers to and from bytes · `storage` ·
`packet`. What happens to it: `parser` · `checksums` · `controls` · `tables`, `ranked` and `profiles` find
what to do · `statements` · `externs` and `meters` · `calculations` and `hashes` · `deparser` · `traffic`
and its `queue` between the passes · `waiting` into a port's queue and out of it · `output` what leaves.
Nothing here knows addresses or the host: state is reached from one pointer, at the offsets of
`memory.layout`.
"""
