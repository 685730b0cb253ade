"""The hot set follows drift: live counts -> the keys that should be hot now -> the moves that lead there."""
