"""Placement, Nova and Keystone, as far as memhint speaks with them."""
