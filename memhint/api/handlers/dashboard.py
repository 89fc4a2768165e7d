"""The dashboard's files."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from werkzeug import Response
from werkzeug.exceptions import HTTPException
from werkzeug.utils import send_from_directory

from memhint.api.errors import not_found
from memhint.api.route import Call

ROOT = Path(str(files("memhint"))) / "web" / "static"


def show(call: Call) -> Response:
    """One of them."""
    name = call.path.get("file") or "index.html"
    try:
        found = send_from_directory(ROOT, name, call.request.environ, max_age=0)
    except (HTTPException, ValueError, OSError):
        raise not_found("file", "the dashboard has no such file: see /dashboard/") from None
    found.headers["Cache-Control"] = "no-cache"
    return found
