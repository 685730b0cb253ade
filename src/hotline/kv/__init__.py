"""A training script's own connection to the parameter servers: Push, Pull, Wait."""
