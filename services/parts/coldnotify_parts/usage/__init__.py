"""The row of the part `usage`."""
