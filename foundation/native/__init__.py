"""Python that becomes machine code: what the agents' data paths are written with, and their plain twin."""
