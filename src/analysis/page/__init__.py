"""The report as one self-contained page: its contents, its style and its interactive figures."""
