"""IR -> LLVM IR: one module a part of the pipeline, put together in `switch`.

`values` P4 arithmetic on `iN` · `wire` headers to and from bytes · `packet` a packet's fields in flight ·
`parser` · `tables` · `actions` · `controls` · `checksums` · `switch` the whole `process` function.
Nothing here knows addresses or the host: state is reached from one pointer, at offsets from `layout`.
"""
