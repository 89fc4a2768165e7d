"""The real servers of the functional tier."""

from tests.functional.conftest import mariadb, postgres, rabbitmq, url

__all__ = ["mariadb", "postgres", "rabbitmq", "url"]
