"""`python -m tests.bench`: what the switches carry and what the agents cost, in paired runs."""
