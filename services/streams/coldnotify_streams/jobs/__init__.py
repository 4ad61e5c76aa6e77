"""Jobs other than the matcher, each in its folder (docs/extending.md). None ships; `registry` finds those present."""
