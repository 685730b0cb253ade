"""The datapath in the kernel: BPF programs on the interfaces, with all state in a BPF arena."""
