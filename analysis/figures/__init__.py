"""The figures of [DDL] and ours: each from logs to data, which are drawn for print or for the page."""
