"""The listener for HTTP, on a port of its own: WebSocket, sync in one request, events for web pages.

`web_site` contains the rules of the port; `queued_connection` is the core's peer there; `websocket`, `sync` and
`event_stream` are the endpoints; `sync_body` parses requests and formats answers, pure. Sync and events use an agent
(`agent.py`) in the device's role.
"""
