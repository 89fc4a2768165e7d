"""Fleets and traces through the same planner, on paper. Needs the extra `memhint[sim]`; the agent never loads it."""
