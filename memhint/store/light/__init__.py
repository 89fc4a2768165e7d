"""The agent's and its host's commands' part of the store, through the standard library's driver.

SQLAlchemy would cost each host 15 MiB, and each command two fifths of its start.

The tables, and what is in their rows, are those of `memhint.store`. Its other stores read and write the same file.
"""
