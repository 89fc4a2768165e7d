"""How a report gets from the agent to those who use it."""
