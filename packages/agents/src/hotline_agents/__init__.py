"""The compiled agents: workers and parameter servers in machine code."""
