"""What a run logs: its columns, part files and how they become one log."""
