"""Which versions there are; a browser is led to the dashboard."""

from __future__ import annotations

from werkzeug import Response
from werkzeug.utils import redirect

from memhint.api.microversion import VERSIONS
from memhint.api.route import ApiResponse, Call


def show(call: Call) -> ApiResponse | Response:
    """The versions document of the OpenStack API guidelines."""
    best = call.request.accept_mimetypes.best_match(["application/json", "text/html"], "application/json")
    if best == "text/html":
        found = redirect(f"{call.request.root_path}/dashboard/")
        found.headers["Vary"] = "Accept"
        return found
    version = {
        "id": "v1",
        "status": "CURRENT",
        "min_version": VERSIONS[0],
        "max_version": VERSIONS[-1],
        "links": [{"rel": "self", "href": f"{call.request.root_path}/v1/hosts"}],
    }
    return ApiResponse({"versions": [version]}, headers={"Vary": "Accept"})
