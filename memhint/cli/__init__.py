"""The `memhint` command: one file per subcommand."""
