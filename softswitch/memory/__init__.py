"""The block of memory that compiled code and control plane share."""
