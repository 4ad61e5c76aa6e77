"""The row of the part `http`."""
