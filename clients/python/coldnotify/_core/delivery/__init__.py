"""From a received notification to callbacks that returned: of objects, and of queries' members."""
