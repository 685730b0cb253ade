"""The client library of training scripts: push, pull and wait."""
