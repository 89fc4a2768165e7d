"""Attacks on real processes: each test is named for who attacks, and what is tried."""
