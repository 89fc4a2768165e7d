"""What a controller's thread for OpenStack does, by [openstack]."""

from __future__ import annotations

from pathlib import Path

import pytest

from memhint.conf.load import load
from memhint.controller.openstack import OpenStackThread
from memhint.store import open_store

LOGIN = "auth_type = admin_token\ntoken = x\nplacement_url = http://127.0.0.1:1\nnova_url = http://127.0.0.1:1\n"


@pytest.mark.parametrize(("capacity", "migrate"), [("off", True), ("observe", False), ("write", True)])
def test_ratios_and_migrations_are_asked_for_one_by_one(tmp_path: Path, capacity: str, migrate: bool) -> None:
    file = tmp_path / "memhint.conf"
    file.write_text(f"[openstack]\ncapacity = {capacity}\nmigrate = {str(migrate).lower()}\n{LOGIN}")
    store = open_store(f"sqlite:///{tmp_path}/memhint.db")
    thread = OpenStackThread(load([file]), store)
    assert (thread._writer is not None, thread._shedder is not None) == (capacity != "off", migrate)
    assert dict(thread.counts) == {}
    thread.close()
    store.close()
