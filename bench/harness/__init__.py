"""What every bench shares: how a result is told, checked, drawn, kept and made into doc/measurements.md."""
