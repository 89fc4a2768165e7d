"""The admin API: one route table, and per resource one file of the same name in handlers, schemas and policies."""
