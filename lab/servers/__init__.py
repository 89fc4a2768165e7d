"""Database servers and a message broker as plain processes, each in a directory of its own: for tests and labs."""
