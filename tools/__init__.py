"""Programs for developers: the bench, the fuzzers, and the mutation tests."""
