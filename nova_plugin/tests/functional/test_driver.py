"""The XML that Nova's own libvirt driver defines domains by, through its whole path, on Nova's fake libvirt."""

from __future__ import annotations

import os
import sys
from unittest import mock
from xml.etree import ElementTree

from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.libvirt import base


class DriverTest(base.ServersTestBase):
    microversion = "latest"
    ADMIN_API = True

    def _setup_compute_service(self):
        self.flags(compute_driver="memhint.MemhintLibvirtDriver")
        self.flags(virt_type="kvm", mem_stats_period_seconds=10, group="libvirt")
        self.flags(api_paste_config=os.path.join(sys.prefix, "etc/nova/api-paste.ini"), group="wsgi")

    def setUp(self):
        super().setUp()
        self.defined: list[str] = []
        defines = fakelibvirt.Connection.defineXML

        def define(connection, xml):
            self.defined.append(xml)
            return defines(connection, xml)

        patched = mock.patch.object(fakelibvirt.Connection, "defineXML", define)
        patched.start()
        self.addCleanup(patched.stop)
        self.start_compute("one")
        self.start_compute("two")
        self.assertEqual("MemhintLibvirtDriver", type(self.computes["one"].driver).__name__)
        self.flags(small_pages_emulator="/usr/bin/memhint-small-pages", group="memhint")
        self.plain = self._create_flavor(memory_mb=1024, vcpu=1)
        self.opted_out = self._create_flavor(
            memory_mb=1024,
            vcpu=1,
            extra_spec={"memhint:reporting": "off", "memhint:dedup": "off", "memhint:huge_pages": "deny"},
        )

    def newest(self):
        """Of the newest definition: whether it reports, deflates, merges, how often it counts, and what starts it."""
        root = ElementTree.fromstring(self.defined[-1])
        balloon = root.find("devices/memballoon")
        return {
            "reporting": balloon.get("freePageReporting"),
            "autodeflate": balloon.get("autodeflate"),
            "merging": root.find("memoryBacking/nosharepages") is None,
            "period": balloon.find("stats").get("period"),
            "emulator": root.findtext("devices/emulator"),
        }

    STOCK = {"reporting": "on", "autodeflate": "on", "merging": True, "period": "10", "emulator": None}
    OUT = {**STOCK, "reporting": "off", "merging": False, "emulator": "/usr/bin/memhint-small-pages"}

    def create(self, flavor):
        return self._create_server(flavor_id=flavor, networks="none")

    def again(self):
        """How many definitions there were; a test asks for more."""
        return len(self.defined)

    def test_create(self):
        self.create(self.plain)
        self.assertEqual(self.STOCK, self.newest())
        self.create(self.opted_out)
        self.assertEqual(self.OUT, self.newest())

    def test_an_opt_out_survives_hard_reboot(self):
        server, before = self.create(self.opted_out), self.again()
        self._reboot_server(server, hard=True)
        self.assertGreater(self.again(), before)
        self.assertEqual(self.OUT, self.newest())

    def test_an_opt_out_survives_stop_and_start(self):
        server, before = self.create(self.opted_out), self.again()
        self._stop_server(server)
        self._start_server(server)
        self.assertGreater(self.again(), before)
        self.assertEqual(self.OUT, self.newest())

    def test_an_opt_out_survives_rebuild(self):
        server, before = self.create(self.opted_out), self.again()
        self._rebuild_server(server, "a2459075-d96c-40d5-893e-577ff92e721c")
        self.assertGreater(self.again(), before)
        self.assertEqual(self.OUT, self.newest())

    def test_an_opt_out_survives_shelving(self):
        self.flags(shelved_offload_time=0)
        server, before = self.create(self.opted_out), self.again()
        self._shelve_server(server)
        self._unshelve_server(server)
        self.assertGreater(self.again(), before)
        self.assertEqual(self.OUT, self.newest())

    def test_resize_follows_the_new_flavor_and_back(self):
        server = self.create(self.opted_out)
        other = self._create_flavor(memory_mb=2048, vcpu=1)
        with mock.patch("nova.virt.libvirt.driver.LibvirtDriver.migrate_disk_and_power_off", return_value="{}"):
            self._resize_server(server, other)
            self.assertEqual(self.STOCK, self.newest())
            self._revert_resize(server)
        self.assertEqual(self.OUT, self.newest())

    def test_cold_migrate_keeps_it(self):
        server, before = self.create(self.opted_out), self.again()
        with mock.patch("nova.virt.libvirt.driver.LibvirtDriver.migrate_disk_and_power_off", return_value="{}"):
            self._migrate_server(server)
        self.assertGreater(self.again(), before)
        self.assertEqual(self.OUT, self.newest())
