"""The datapath in the kernel: BPF programs on the interfaces, with all state in a BPF arena.

`bpf` wraps the system call. `arena` is the memory that programs and this process share. `target` has what
LLVM IR for BPF needs, and `assembler` makes instructions of object code. `program` compiles a P4 program,
with the front end `direct` or `front`. `control` has the control plane's reads and writes. `pipeline` makes a
`Pipeline` of them. `probe` tells whether this kernel supports it. `ports` has the interfaces.
"""
