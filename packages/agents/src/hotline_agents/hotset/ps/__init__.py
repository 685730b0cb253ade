"""The server, which handles lanes that the switch has not served, and moves keys into the switch and back."""
