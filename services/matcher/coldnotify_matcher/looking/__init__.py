"""HTTP endpoints that show what the matcher holds, and that write down what operators ask for."""
