"""ATP in virtual time: its published rules as plain models, a search for wrong schedules, and faults."""
