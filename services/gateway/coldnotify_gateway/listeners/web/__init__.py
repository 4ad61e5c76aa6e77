"""Devices that come by HTTP, on a port of its own: WebSocket, sync in one request, events for pages.

`site` has the rules of the port; `queued_connection` is the core's peer there; `websocket`, `sync` and `events` are the
endpoints; `sync_body` says what a request asks, pure. Sync and events play the device's part by an agent (`agent.py`).
"""
