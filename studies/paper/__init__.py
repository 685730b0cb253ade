"""All runs and measurements behind the figures of [DDL] and ours: `make paper` and `make map`."""
