"""HTTP ports: what each answers, who may ask, bounds on bodies and connections, JSON, OpenAPI."""
