"""What a controller does for the hot set: it chooses keys, and moves them between servers and switch."""
