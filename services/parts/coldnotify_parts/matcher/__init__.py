"""The row of the part `matcher`."""
