"""What memhint asks of Placement, Nova and Keystone."""
