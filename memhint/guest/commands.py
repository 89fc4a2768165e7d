"""Names of the guest agent's memory commands, in one place: a downstream that prefixes them changes these lines."""

from __future__ import annotations

GET_PAGE_REPORTING = "guest-get-page-reporting"
SET_PAGE_REPORTING = "guest-set-page-reporting"
GET_MEMINFO = "guest-get-meminfo"
RECLAIM_MEMORY = "guest-reclaim-memory"
