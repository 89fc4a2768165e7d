"""Allocation ratios in Placement: who speaks for a provider, what it should have, and one write at a time."""
