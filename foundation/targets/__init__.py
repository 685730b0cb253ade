"""Switches and ways to drive them: in-process, BMv2, over P4Runtime."""
