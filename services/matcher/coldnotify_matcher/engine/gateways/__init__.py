"""Gateways as one partition knows them."""
