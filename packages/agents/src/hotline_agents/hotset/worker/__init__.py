"""The worker: hot keys travel in any RPC whose lane for them is free."""
