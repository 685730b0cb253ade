"""A simulated dedicated switch beside the results of a real run."""
