"""Drills: faults made from outside, each with the alerts that it makes fire and that clear afterwards.

Every alert is made to fire by one of the faults, or `faults.NOT_DRILLED` gives the reason why not.
"""
