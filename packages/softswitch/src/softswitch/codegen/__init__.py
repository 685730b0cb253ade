"""Compile the IR to LLVM IR: one module for each part of the pipeline, combined in `pipeline`.

No module knows absolute addresses: all state is at offsets (`memory.layout`) from one pointer.
"""
