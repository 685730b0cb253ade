"""`python -m bench`: packets/s, one-way latency and install time of the switches, in paired runs."""
