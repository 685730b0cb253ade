"""What a switch would do for a cluster, and predictions from measured runs."""
