"""How a cycle drives its levers: one runner for each, all of one kind from outside."""
