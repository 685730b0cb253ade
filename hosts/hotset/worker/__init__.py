"""The worker's half: hot keys ride in any RPC that has their lane free."""
