"""What is read of apt, whatever language its user speaks."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lab import packages
from lab.errors import ImageError
from lab.programs import run

APT_CACHE = """\
#!/bin/sh
# As apt does it: a LANGUAGE is for every locale but C.
if [ "$LC_ALL" = C ]; then word=Depends; else word='Hängt ab von'; fi
printf '%s\\n' "linux-image-cloud-amd64" "  $word: linux-image-6.1.0-9-cloud-amd64" " |Pre$word: b"
"""


@pytest.fixture
def german(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with apt's translations, whose user has German."""
    (tmp_path / "apt-cache").write_text(APT_CACHE)
    (tmp_path / "apt-cache").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("LANGUAGE", "de")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")


@pytest.mark.usefixtures("german")
def test_dependencies_are_read_in_any_language() -> None:
    assert packages.dependencies("linux-image-cloud-amd64") == ["linux-image-6.1.0-9-cloud-amd64", "b"]


@pytest.mark.usefixtures("german")
def test_a_program_that_is_given_its_environment_speaks_the_same() -> None:
    show = ["/bin/sh", "-c", "echo $LC_ALL $ONE"]
    assert run(show, "asking", ImageError, env={"ONE": "1", "LC_ALL": "de_DE.UTF-8"}) == "C 1\n"
    assert subprocess.run(show, capture_output=True, text=True, check=True).stdout == "de_DE.UTF-8\n"  # left as it was
