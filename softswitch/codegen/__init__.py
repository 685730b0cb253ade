"""IR -> LLVM IR: one module a part of the pipeline, put together in `switch`.

What a packet is: `values` P4 arithmetic on `iN` · `wire` headers to and from bytes · `storage` · `packet`.
What happens to it: `parser` · `checksums` · `controls` · `lookup`, `tables`, `ranked` and `profiles` find
what to do · `actions` · `externs` · `calculations` and `hashes` · `deparser` · `traffic` and its `queue`
between the passes · `output` what leaves.
Nothing here knows addresses or the host: state is reached from one pointer, at offsets from `layout`.
"""
