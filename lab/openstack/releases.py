"""The releases of OpenStack that the lab can bring up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.openstack.errors import UnknownRelease

_CONSTRAINTS = Path(__file__).resolve().parent / "constraints"
PACKAGES = (
    "nova", "openstack-placement", "keystone", "glance", "neutron", "libvirt-python", "PyMySQL", "uWSGI", "setuptools",
)  # fmt: skip
"""What is installed; the release's constraints say which versions, of these and of all they need."""
COMPUTE_PACKAGES = ("nova", "libvirt-python", "setuptools")
"""Those of them for computes of another release of Debian, by that release's Python."""


@dataclass(frozen=True)
class Release:
    """One release, named by the major version of its Nova."""

    nova: str
    series: str
    unsaid: tuple[str, ...] = ()
    """What its packages need and forget to ask for."""

    @property
    def constraints(self) -> Path:
        """The versions it was tried with, as pip reads them."""
        return _CONSTRAINTS / f"{self.nova}.txt"


RELEASES = (
    Release("34", "2026.2"),
    Release("33", "2026.1", ("pyroute2",)),
    Release("32", "2025.2"),
    Release("31", "2025.1"),
)
NEWEST = RELEASES[0]


def find(name: str) -> Release:
    """The release called "34" or "2026.2"; UnknownRelease names those there are."""
    for release in RELEASES:
        if name in (release.nova, release.series) and release.constraints.exists():
            return release
    known = ", ".join(f"{one.nova} ({one.series})" for one in RELEASES if one.constraints.exists())
    raise UnknownRelease(f"{name!r} is not one of the releases that the lab knows: {known}")
