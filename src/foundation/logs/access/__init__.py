"""Access logs of any format, read in blocks and written as steps in the order of time."""
