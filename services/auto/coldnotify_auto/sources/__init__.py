"""Kinds of sources, each a folder with a row."""
