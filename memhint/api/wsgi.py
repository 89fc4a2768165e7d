"""For other WSGI servers: `memhint.api.wsgi:application`. MEMHINT_CONFIG names the configuration file.

It must be one process for all clients of [api] streams and rate, or as many such limits as there are processes.
"""

from __future__ import annotations

import os

from memhint import conf as configuration
from memhint.api.app import application as made
from memhint.conf.log import set_up
from memhint.controller.dispatch import dispatch_of
from memhint.store.database import open_store

_FILE = os.environ.get("MEMHINT_CONFIG")
_CONF = configuration.load([_FILE] if _FILE else None)
set_up(_CONF, "api")
_STORE = open_store(_CONF.store.url, create=False)
application = made(_CONF, _STORE, dispatch_of(_CONF, _STORE))
