"""What to keep in a switch: policies of every kind, replayed on one log of updates."""
