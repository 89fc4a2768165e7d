"""The benches, one a module."""
