"""The words of reports, for the page and the terminal: functions from typed results to sentences."""
