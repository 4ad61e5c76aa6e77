"""Load tests: a swarm of light devices, the field's experiments, and the same for the field's servers: `make bench`."""
