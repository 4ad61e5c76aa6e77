"""The row of the part `gateway`."""
