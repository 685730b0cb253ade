"""The block of memory that packet function and control plane share, and how they call each other.

`words` · `layout` where a program's state lies · `coding` keys and data of entries as words · `rows` tables
as the control plane's compiled functions know them · `index` the hash index, as LLVM IR for both ·
`process` the packet function's signature · `output` what it hands over · `waiting` a packet on its way to
egress.
"""
