"""Frozen, typed records without I/O. All other packages import these; these import none of them."""
