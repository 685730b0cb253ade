"""Workers that are somebody's script, in a run."""
