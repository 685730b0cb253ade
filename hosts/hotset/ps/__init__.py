"""The server's half: what the switch has not served, and moves of keys into it and back."""
