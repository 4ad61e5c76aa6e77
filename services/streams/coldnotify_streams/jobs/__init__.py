"""Jobs beside the matcher, a folder each (docs/extending.md). None ships; `registry` finds those that are there."""
