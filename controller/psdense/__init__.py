"""What a controller does where servers add up dense vectors: routes."""
