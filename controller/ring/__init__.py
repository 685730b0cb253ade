"""What a controller does where workers add up dense vectors in a ring: routes."""
