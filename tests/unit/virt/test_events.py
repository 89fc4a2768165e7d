"""libvirt's event loop where it fails."""

from __future__ import annotations

import libvirt
import pytest

from memhint.virt import events


class Over(Exception):
    """The test has seen enough."""


def test_a_loop_that_fails_each_time_does_not_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float | None] = []

    def fail() -> None:
        seen.append(None)
        if len(seen) > 20:
            raise Over
        raise libvirt.libvirtError("poll: bad descriptor")

    monkeypatch.setattr(libvirt, "virEventRunDefaultImpl", fail)
    monkeypatch.setattr("time.sleep", seen.append)
    with pytest.raises(Over):
        events._run()
    rests = [one for one in seen if one is not None]
    assert len(rests) == 10
    assert sum(rests) >= 1.0
