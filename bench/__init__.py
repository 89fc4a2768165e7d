"""Benchmarks: each prints its figures with the ratio that matters, measured within one run."""
