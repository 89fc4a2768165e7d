"""Neutron's API without a plugin for routers: the models those bring must be known before the first query."""

from neutron.db.models import port_forwarding  # noqa: F401
from neutron.plugins.ml2 import models  # noqa: F401
from sqlalchemy import orm

orm.configure_mappers()

from neutron.wsgi.api import application  # noqa: E402, F401
