"""Changes that time alone makes: silent gateways, old clients, old objects."""
