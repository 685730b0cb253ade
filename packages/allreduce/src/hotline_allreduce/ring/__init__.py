"""Design `ring`: workers add up dense vectors in a ring."""
