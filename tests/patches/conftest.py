"""What the checks of the patch series share."""

from tests.patches.command import beside_others

__all__ = ["beside_others"]
