"""What the API does, one file per resource. A handler is given checked words and gives back plain data."""
