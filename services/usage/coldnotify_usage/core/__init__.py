"""The usage job without I/O: records in; counts by hour and day, rates, shares and verdicts out."""
