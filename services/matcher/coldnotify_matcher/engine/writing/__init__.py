"""Records that the engine writes: state, repairs, strays, rejected records."""
