"""memhint for Nova: a scheduler filter and weigher, extra-spec validators, and a compute driver.

``filter``, ``weigher``, ``extra_specs``, ``driver`` and ``guard`` import Nova; everything else stands without it.
"""
