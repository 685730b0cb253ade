"""Studies built on the testbed: cache policies, dense training, the paper's figures, all-reduce designs."""
