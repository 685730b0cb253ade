"""The runs and measurements behind the figures of [DDL] and of this project: `make paper`, `make map`."""
