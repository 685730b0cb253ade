"""The figures of Pan et al. and of this project: from logs to data, drawn for print or for the page."""
