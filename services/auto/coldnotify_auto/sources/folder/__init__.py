"""Folders as sources: a file is an object."""
