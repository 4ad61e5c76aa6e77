"""Helpers that tests share: waiting, child processes, proxies, raw sockets as devices, whole stacks, doubles. Not
shipped.
"""
