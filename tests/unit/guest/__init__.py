"""Tests of what a guest tells."""
