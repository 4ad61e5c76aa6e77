"""HTTP endpoints that show the matcher's state, and that write requests of operators."""
