"""Looks at the pages of VMs, a few of each: what could merge is estimated from them. No lever; nothing is changed."""
