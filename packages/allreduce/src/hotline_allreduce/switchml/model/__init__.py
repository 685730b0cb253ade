"""SwitchML in virtual time: its published rules as a plain model, and schedules of faults."""
