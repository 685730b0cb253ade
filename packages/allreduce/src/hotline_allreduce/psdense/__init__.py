"""Design `psdense`: servers add up dense vectors."""
