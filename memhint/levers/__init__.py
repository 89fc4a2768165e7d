"""One file per lever: probe → support, read → observed, pull → outcome, undo. Each is handed what it acts through."""
