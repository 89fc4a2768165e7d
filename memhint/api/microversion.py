"""`OpenStack-API-Version: memhint 1.0`: which shape of the answers a client was written for."""

from __future__ import annotations

from collections.abc import Iterable

import microversion_parse

from memhint.api.errors import Problem

SERVICE = "memhint"
HEADER = "OpenStack-API-Version"
# Every version there is, oldest first. One that changes an answer is added here and told of in doc/api.md.
VERSIONS = ("1.0",)


def version_of(headers: Iterable[tuple[str, str]]) -> microversion_parse.Version:
    """The version that the headers of a request ask for; the oldest where they do not say.

    :raises Problem: 400 where it is none, 406 where there is none such
    """
    try:
        return microversion_parse.extract_version(list(headers), SERVICE, VERSIONS)
    except TypeError:
        raise Problem(400, "microversion.invalid", f"write {HEADER}: {SERVICE} {VERSIONS[-1]}, or latest") from None
    except ValueError:
        raise Problem(
            406,
            "microversion.unsupported",
            f"this server has {VERSIONS[0]} to {VERSIONS[-1]}",
            extra={"min_version": VERSIONS[0], "max_version": VERSIONS[-1]},
        ) from None
