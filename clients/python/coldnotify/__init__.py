"""ColdNotify for Python: the client of an observation unit, and the publisher of a back-end."""
