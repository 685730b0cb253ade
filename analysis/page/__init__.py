"""The report as one self-contained page: what is in it, how it looks, how figures can be explored."""
