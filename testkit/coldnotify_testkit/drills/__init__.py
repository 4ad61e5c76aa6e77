"""Drills: faults made from outside, each with the alerts that fire by it and clear after it.

Every alert is among what one of the faults makes fire, or `faults.NOT_DRILLED` says why not.
"""
