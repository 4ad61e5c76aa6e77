"""HTTP ports: answers, authorization, bounds on bodies and connections, JSON, OpenAPI."""
