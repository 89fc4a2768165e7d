"""What the tests of all series share: a guest for a class of tests, and a look at what its kernel said."""

from __future__ import annotations

import unittest

from lab.kernel_guest import Guest


class KernelCase(unittest.TestCase):
    """One guest for all tests of a class. They fail when its kernel has complained by their end."""

    guest: Guest

    @classmethod
    def boot(cls) -> Guest:
        """A guest that has just been started."""
        raise NotImplementedError

    @classmethod
    def setUpClass(cls) -> None:
        cls.guest = cls.boot()

    @classmethod
    def tearDownClass(cls) -> None:
        trouble = cls.guest.trouble()
        cls.guest.close()
        if trouble:
            raise AssertionError("the guest's kernel complained: " + "; ".join(trouble[:10]))
