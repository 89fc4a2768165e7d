"""What is written and read, apart from how: the rows that both stores of a host keep alike."""
