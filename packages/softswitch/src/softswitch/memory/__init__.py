"""The memory block that packet function and control plane share, and the interface between them."""
