"""`OpenStack-API-Version: memhint 1.0`: which shape of the answers a client was written for."""

from __future__ import annotations

import microversion_parse

from memhint.api.errors import Problem

SERVICE = "memhint"
HEADER = "OpenStack-API-Version"
# Every version there is, oldest first. One that changes an answer is added here and told of in doc/api.md.
VERSIONS = ("1.0",)


def version_of(said: str | None) -> microversion_parse.Version:
    """The version that the header of a request asks for; the oldest where there is none.

    :raises Problem: 400 where it is none, 406 where there is none such
    """
    try:
        return microversion_parse.extract_version([(HEADER, said or "")], SERVICE, VERSIONS)
    except TypeError:
        raise Problem(400, "microversion.invalid", f"write {HEADER}: {SERVICE} {VERSIONS[-1]}, or latest") from None
    except ValueError:
        raise Problem(
            406,
            "microversion.unsupported",
            f"this server has {VERSIONS[0]} to {VERSIONS[-1]}",
            extra={"min_version": VERSIONS[0], "max_version": VERSIONS[-1]},
        ) from None
