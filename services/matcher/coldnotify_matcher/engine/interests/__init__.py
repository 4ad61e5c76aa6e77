"""Interests of clients: a module for each kind of interest, which holds all that differs between kinds."""
