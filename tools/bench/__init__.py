"""`python -m tools.bench`: what the switches carry and what the agents cost, in paired runs."""
