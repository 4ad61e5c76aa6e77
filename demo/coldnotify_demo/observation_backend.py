"""A back-end for data on demand: asks the OUs of a group for a kind of data, and takes what they upload.

    python -m coldnotify_demo.observation_backend [--coldnotify URL] [--http-port PORT]

POST /ask/body-mass publishes a new version of the object requests/body-mass, by plain HTTP: any language can do that.
Its payload says where to upload. POST /uploads/{kind}/{unit} is that place.
"""

import argparse
import asyncio
import time
from statistics import mean

from aiohttp import ClientError, ClientSession, ClientTimeout, web

from coldnotify_demo.hosting import run_until_stopped, serving
from coldnotify_demo.saying import say

ANSWER_TIMEOUT_S = 15
REQUEST_LIFETIME_MS = 24 * 60 * 60 * 1000
"""An OU that wakes later than that need not answer any more."""


class ObservationBackend:
    """Publishes requests, counts what comes in."""

    def __init__(self, session: ClientSession, objects_url: str) -> None:
        self._session = session
        self._objects_url = objects_url
        self.own_url = ""

    async def ask(self, request: web.Request) -> web.Response:
        """POST /ask/{kind}: a scientist wants data. The record names no version: it gets Kafka's time as one."""
        kind = request.match_info["kind"]
        record = {
            "payload": {"upload_to": f"{self.own_url}/uploads/{kind}"},
            "expires_at": int(time.time() * 1000) + REQUEST_LIFETIME_MS,
        }
        try:
            async with self._session.post(f"{self._objects_url}/requests/{kind}", json=record) as answer:
                answer.raise_for_status()
                version = (await answer.json())["version"]
        except (ClientError, TimeoutError) as error:
            # It may have been published all the same; to ask again is safe.
            raise web.HTTPBadGateway(text=f"not known to be published, ask again: {error}\n") from error
        say(f"asked everybody for {kind} (version {version})", event="asked", kind=kind, version=version)
        return web.json_response({"version": version})

    async def take(self, request: web.Request) -> web.Response:
        """POST /uploads/{kind}/{unit}: a JSON list of observations."""
        kind, unit = request.match_info["kind"], request.match_info["unit"]
        values = [float(observation["value"]) for observation in await request.json()]
        average = f", {mean(values):.1f} on average" if values else ""
        say(
            f"received {len(values)} observations of {kind} from {unit}{average}",
            event="received",
            kind=kind,
            unit=unit,
            count=len(values),
        )
        return web.Response(status=204)


async def run(coldnotify: str, domain: str, group: str, http_port: int) -> None:
    """Serves until cancelled."""
    async with ClientSession(timeout=ClientTimeout(total=ANSWER_TIMEOUT_S)) as session:
        backend = ObservationBackend(session, f"{coldnotify}/v1/domains/{domain}/groups/{group}/objects")
        routes = [web.post("/ask/{kind}", backend.ask), web.post("/uploads/{kind}/{unit}", backend.take)]
        async with serving(routes, http_port) as backend.own_url:
            say(f"taking uploads at {backend.own_url}", event="serving", url=backend.own_url)
            await asyncio.Event().wait()


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="Ask OUs for observations, and take their uploads.")
    parser.add_argument("--domain", default="penguin.observations")
    parser.add_argument("--group", default="palmer-archipelago")
    parser.add_argument("--coldnotify", default="http://127.0.0.1:55002", help="ColdNotify's HTTP service")
    parser.add_argument("--http-port", type=int, default=0)
    args = parser.parse_args()
    run_until_stopped(run(args.coldnotify, args.domain, args.group, args.http_port))


if __name__ == "__main__":
    main()
