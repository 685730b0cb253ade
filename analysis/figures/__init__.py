"""The figures of [DDL] and of this project: from logs to data, drawn for print or for the page."""
