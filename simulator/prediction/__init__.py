"""What a real run has taken, how its costs are found, and what virtual time makes of another one."""
