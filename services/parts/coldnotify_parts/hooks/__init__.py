"""The row of the part `hooks`."""
