"""Commands on the fleet, which ask the API: the same ones under `memhint` and under `openstack memhint`."""
