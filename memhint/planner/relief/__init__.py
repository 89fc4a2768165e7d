"""What the pressure ladder asks of whom: a file for each rung."""
