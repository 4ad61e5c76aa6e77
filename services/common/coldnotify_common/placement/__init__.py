"""The rules by which gateways share clients. They say which gateway is cut off, full or above its share, and which one
a client is given.

All of them are pure: gateways, HTTP nodes, the simulation and the model of a hundred gateways run the same ones.
"""
