"""Logs of a run: their columns, the part files that agents write, and their merge into one file a log."""
