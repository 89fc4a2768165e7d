"""What the filter does in each of Nova's operations. doc/nova.md has a row for each test of this file."""

from __future__ import annotations

from nova.compute import instance_actions
from nova.tests.functional.api import client as api_client

from tests.functional.base import VM, PluginTestCase


class CreateTest(PluginTestCase):
    def test_create(self):
        self.create("ERROR")
        self.assertEqual({"headroom": 2}, self.vetoes())
        self.say("two", room=1)
        self.assertEqual("two", self.host_of(self.create()))

    def test_create_beyond_nominal(self):
        self.say("one", room=5)
        for _ in range(5):  # 3 would fit 8192 − 512 MiB
            self.assertEqual("one", self.host_of(self.create()))
        self.create("ERROR")

    def test_create_with_host(self):
        self.say("two", room=1)
        self.create("ERROR", host="one")
        self.assertEqual("two", self.host_of(self.create(host="two")))

    def test_create_az_forced(self):
        self.assertEqual("one", self.host_of(self.create(az="nova:one")))
        self.assertEqual({}, self.vetoes())

    def test_create_many_at_once(self):
        self.say("one", room=2)
        body = self._build_server(flavor_id=self.flavor, networks="none")
        body.update(min_count=3, max_count=3)
        first = self.api.post_server({"server": body})
        self._wait_for_state_change(first, "ERROR")
        self.say("two", room=1)
        body["name"] = "again"
        self.api.post_server({"server": body})
        again = [one for one in self.api.get_servers() if one["name"].startswith("again")]
        self.assertEqual(3, len(again))
        again = [self._wait_for_state_change(one, "ACTIVE") for one in again]
        self.assertEqual(["one", "one", "two"], sorted(map(self.host_of, again)))

    def test_create_one_after_the_other_between_two_reports(self):
        self.say("one", room=2)
        for _ in range(2):
            self.create()
        self.create("ERROR")
        self.say("one", room=1, vms=2)
        self.create()

    def test_packs(self):
        self.say("one", room=9)
        self.say("two", room=4)
        self.assertEqual(["two", "two", "two"], [self.host_of(self.create()) for _ in range(3)])

    def test_stale(self):
        self.say("one", room=9, period=0.001)
        self.assertEqual(["one"] * 3, [self.host_of(self.create()) for _ in range(3)])
        self.create("ERROR")
        self.assertEqual({"stale": 1, "headroom": 4}, self.vetoes())

    def test_another_compute_by_that_name(self):
        self.say("one", room=9, provider="11111111-2222-4333-8444-555555555555")
        self.assertEqual(["one"] * 3, [self.host_of(self.create()) for _ in range(3)])
        self.create("ERROR")
        self.assertEqual(1, self.vetoes()["mismatch"])


class MoveTest(PluginTestCase):
    def setUp(self):
        super().setUp()
        self.say("one", room=1)
        self.server = self.create()
        self.say("one", room=0, vms=1)

    def moved(self):
        self.server = self.api.get_server(self.server["id"])
        return self.host_of(self.server) == "two"

    def test_cold_migrate(self):
        self.api.post_server_action(self.server["id"], {"migrate": None})
        self._assert_resize_migrate_action_fail(self.server, instance_actions.MIGRATE, "NoValidHost")
        self.say("two", room=1)
        self._migrate_server(self.server)
        self.assertTrue(self.moved())

    def test_cold_migrate_to_host(self):
        self.api.post_server_action(self.server["id"], {"migrate": {"host": "two"}})
        self._assert_resize_migrate_action_fail(self.server, instance_actions.MIGRATE, "NoValidHost")
        self.say("two", room=1)
        self._migrate_server(self.server, host="two")
        self.assertTrue(self.moved())

    def test_resize(self):
        larger = self._create_flavor(memory_mb=2 * VM, vcpu=1, ephemeral=0)
        self.say("two", room=1)
        self.api.post_server_action(self.server["id"], {"resize": {"flavorRef": larger}})
        self._assert_resize_migrate_action_fail(self.server, instance_actions.RESIZE, "NoValidHost")
        self.say("two", room=2)
        self._resize_server(self.server, larger)
        self.assertTrue(self.moved())
        # The way back takes nothing that the VM does not hold already: no filter is asked.
        self.say("one", room=0, vms=1, admitting=False)
        self._revert_resize(self.server)
        self.assertFalse(self.moved())

    def live_migrate(self, status, host=None):
        """Nova's own helper takes no host before release 33."""
        self.api.post_server_action(self.server["id"], {"os-migrateLive": {"host": host, "block_migration": "auto"}})
        self._wait_for_migration_status(self.server, [status])
        self._wait_for_state_change(self.server, "ACTIVE")

    def test_live_migrate(self):
        self.live_migrate("error")
        self.assertFalse(self.moved())
        self.say("two", room=1)
        self.live_migrate("completed")
        self.assertTrue(self.moved())

    def test_live_migrate_to_host(self):
        self.live_migrate("error", "two")
        self.assertFalse(self.moved())
        self.say("two", room=1)
        self.live_migrate("completed", "two")
        self.assertTrue(self.moved())

    def test_live_migrate_forced(self):
        self.api.microversion = "2.67"
        self.addCleanup(setattr, self.api, "microversion", self.microversion)
        force = {"host": "two", "block_migration": "auto", "force": True}
        self.api.post_server_action(self.server["id"], {"os-migrateLive": force})
        self._wait_for_migration_status(self.server, ["completed"])
        self.assertTrue(self.moved())

    def down(self, name):
        self.computes[name].stop()
        service = self.admin_api.get_services(host=name, binary="nova-compute")[0]
        self.admin_api.put_service(service["id"], {"forced_down": True})

    def test_evacuate(self):
        self.down("one")
        self._evacuate_server(self.server, expected_state="ERROR", expected_migration_status="error")
        self.assertFalse(self.moved())
        self.say("two", room=1)
        self.admin_api.post_server_action(self.server["id"], {"os-resetState": {"state": "active"}})
        self._evacuate_server(self.server, expected_host="two")

    def test_unshelve(self):
        self.flags(shelved_offload_time=0)
        self._shelve_server(self.server)
        self.say("one", room=0)
        self.api.post_server_action(self.server["id"], {"unshelve": None})
        self._wait_for_action_fail_completion(self.server, instance_actions.UNSHELVE, "schedule_instances")
        still = {"status": "SHELVED_OFFLOADED", "OS-EXT-STS:task_state": None, "OS-EXT-SRV-ATTR:host": None}
        self._wait_for_server_parameter(self.server, still)
        self.say("two", room=1)
        self._unshelve_server(self.server)
        self.assertTrue(self.moved())


class StayTest(PluginTestCase):
    """What takes no memory that the VM did not have goes on on a host that admits nothing."""

    def setUp(self):
        super().setUp()
        self.say("one", room=1)
        self.server = self.create()
        self.say("one", room=0, vms=9, admitting=False, detail="memory pressure 50 %")
        self.before = self.vetoes()

    def test_rebuild_same_image(self):
        self._rebuild_server(self.server, self.server["image"]["id"])
        self.assertEqual(self.before, self.vetoes())

    def test_rebuild_new_image(self):
        self._rebuild_server(self.server, "a2459075-d96c-40d5-893e-577ff92e721c")
        self.assertEqual(self.before, self.vetoes())

    def test_stop_start_reboot(self):
        self._stop_server(self.server)
        self._start_server(self.server)
        self._reboot_server(self.server, hard=True)
        self.assertEqual(self.before, self.vetoes())


class ExtraSpecsTest(PluginTestCase):
    def test_validated_from_286_on_and_tolerated_before(self):
        for spec in ({"memhint:class": "gold"}, {"memhint:no_such_key": "1"}):
            refused = self.assertRaises(
                api_client.OpenStackApiException, self.admin_api.post_extra_spec, self.flavor, {"extra_specs": spec}
            )
            self.assertEqual(400, refused.response.status_code)
        self.admin_api.microversion = "2.85"
        self.addCleanup(setattr, self.admin_api, "microversion", self.microversion)
        self.admin_api.post_extra_spec(self.flavor, {"extra_specs": {"memhint:overcommit": "maybe"}})
        self.say("one", room=9)
        for _ in range(3):
            self.create()
        self.create("ERROR")  # the safe value: nominal room only
        self.assertEqual(1, self.vetoes()["opt_out"])
