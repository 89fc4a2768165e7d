"""The process of a fleet that keeps what all agents report. Any number of it may run."""
