"""Devices that come by HTTP, on a port of its own: WebSocket, sync in one request, events for pages.

`site` has the port and its rules; `queued` is the core's peer there; `websocket`, `sync` and `events` are the
endpoints; `sync_body` (what a request asks, pure) and `exchange` (the client's part of a session, pure) belong to the
latter two.
"""
