"""The admin API for programs: one client under `memhint`, `openstack memhint` and whoever else asks it.

It knows the API by its documents alone: nothing of agent, store or server is imported here.
"""
