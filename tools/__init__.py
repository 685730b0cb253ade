"""Programs for developers: tests that a change affects, the bench, the fuzzers, and the mutation tests."""
