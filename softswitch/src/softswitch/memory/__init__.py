"""The memory block that packet function and control plane share, and the interface between them.

`words` · `layout` offsets of a program's state · `coding` keys and data of entries as words · `rows` tables
for the control plane's compiled functions · `index` the hash index, as LLVM IR for both sides · `process` the
packet function's signature · `output` its output records · `waiting` a packet between ingress and egress.
"""
