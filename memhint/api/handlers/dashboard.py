"""The dashboard's files."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path

from werkzeug import Response
from werkzeug.exceptions import HTTPException
from werkzeug.utils import send_from_directory

from memhint.api.errors import not_found
from memhint.api.route import Call
from memhint.objects.policy import KEYS

ROOT = Path(str(files("memhint"))) / "web" / "static"
POLICY_KEYS = "parts/policy_keys.js"  # no file: made of memhint's own keys


def show(call: Call) -> Response:
    """One of them."""
    name = call.path.get("file") or "index.html"
    if name == POLICY_KEYS:
        return Response(policy_keys(), mimetype="text/javascript", headers={"Cache-Control": "no-cache"})
    try:
        found = send_from_directory(ROOT, name, call.request.environ, max_age=0)
    except (HTTPException, ValueError, OSError):
        raise not_found("file", "the dashboard has no such file: see /dashboard/") from None
    found.headers["Cache-Control"] = "no-cache"
    return found


def policy_keys() -> str:
    """A module that says what each policy key takes."""
    keys = [{"name": key.name, "help": key.help, **asdict(key.kind)} for key in KEYS.values()]  # type: ignore[call-overload]
    return f"export const POLICY_KEYS = {json.dumps(keys, indent=1)};\n"
