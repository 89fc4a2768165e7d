"""What every tier shares."""

import os

from hypothesis import settings

# No deadline: a property must not fail because the machine was busy. Where a run decides over a change it looks at the
# same examples each time; elsewhere at new ones, which is how new faults are found.
settings.register_profile("memhint", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("memhint")
