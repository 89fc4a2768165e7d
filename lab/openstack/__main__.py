"""`python -m lab.openstack`."""

from lab.openstack.cli import main

raise SystemExit(main())
