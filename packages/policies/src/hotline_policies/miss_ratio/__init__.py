"""Miss-ratio curves of LRU: the share of misses against the size of the cache, for all sizes at once."""
