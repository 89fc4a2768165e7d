"""The admin API for programs: the client of `memhint`, of `openstack memhint`, and for others to import.

It knows the API by its documents alone: nothing of agent, store or server is imported here.
"""
