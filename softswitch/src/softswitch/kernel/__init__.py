"""The same program in the kernel: BPF on the interfaces themselves, with all state in a BPF arena.

`bpf` the system call · `arena` memory that programs and this process share · `target` what LLVM IR for BPF
has otherwise · `assembler` object code to instructions that the kernel takes · `program` a P4 program as
BPF, with the front ends `direct` and `front` · `control` reads and writes of the control plane · `pipeline`
all of it as a `Pipeline` · `probe` whether this kernel can · `ports` the interfaces · `losses` what
those drop.
"""
