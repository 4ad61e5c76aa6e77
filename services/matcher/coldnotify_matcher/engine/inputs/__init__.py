"""Inputs of the engine: records of the logs, and requests of gateways and operators."""
