"""Addresses as sources: what a web server answers is an object."""
