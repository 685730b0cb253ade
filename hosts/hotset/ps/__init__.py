"""The server: it handles what the switch has not served, and moves keys into the switch and back."""
