"""Interests by query: conditions over what objects are and what they are called, and the sets of objects that fit."""
