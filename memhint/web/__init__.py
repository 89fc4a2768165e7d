"""The dashboard: static files that the admin API serves under /dashboard/. Everything in them is public."""

from __future__ import annotations

from pathlib import Path

STATIC = Path(__file__).parent / "static"
