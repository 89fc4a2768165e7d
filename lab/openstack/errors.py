"""What the OpenStack lab adds to the lab's ways to refuse or fail."""

from __future__ import annotations

from lab.errors import LabError


class UnknownRelease(LabError):
    """No constraints are kept for this release of OpenStack."""


class PackagesFailed(LabError):
    """The services could not be installed from the package index."""


class ServiceFailed(LabError):
    """A service ended, or did not answer in time; carries the end of its log."""


class ServerFailed(LabError):
    """A server (VM) did not become what was asked of it; carries Nova's reason."""
