"""The base of all errors, strict settings, coroutines side by side, numbers with their nouns."""
