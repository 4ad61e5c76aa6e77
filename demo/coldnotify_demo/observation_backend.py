"""A back-end for data on demand: asks the OUs of a group for a kind of data, and takes what they upload.

    python -m coldnotify_demo.observation_backend [--coldnotify URL] [--http-port PORT]

POST /ask/body-mass publishes a new version of the object requests/body-mass, by plain HTTP: any language can do that.
Its payload contains the upload address, POST /uploads/{kind}/{unit}.

POST /survey/1/body-mass publishes the object surveys/1 with a description, by which OUs find it; POST /close/1
describes it as closed. POST /instruct sends its body to all OUs as a message of the channel instructions.
"""

import argparse
import asyncio
import time
from statistics import mean

from aiohttp import ClientError, ClientSession, ClientTimeout, web
from yarl import URL

from coldnotify_demo.hosting import run_until_stopped, serving
from coldnotify_demo.saying import say

ANSWER_TIMEOUT_S = 15
REQUEST_LIFETIME_MS = 24 * 60 * 60 * 1000
"""An OU that wakes later than that need not answer any more."""


class ObservationBackend:
    """Publishes requests, counts what comes in."""

    def __init__(self, session: ClientSession, group_url: str) -> None:
        self._session = session
        self._group_url = group_url
        self._instructions = 0
        self.own_url = ""

    async def ask(self, request: web.Request) -> web.Response:
        """POST /ask/{kind}: a scientist wants data. The record names no version: it gets Kafka's time as one."""
        kind = request.match_info["kind"]
        record = {
            "payload": {"upload_to": f"{self.own_url}/uploads/{kind}"},
            "expires_at": int(time.time() * 1000) + REQUEST_LIFETIME_MS,
        }
        version = (await self._say("post", f"objects/requests/{kind}", record))["version"]
        say(f"asked everybody for {kind} (version {version})", event="asked", kind=kind, version=version)
        return web.json_response({"version": version})

    async def survey(self, request: web.Request) -> web.Response:
        """POST /survey/{number}/{kind}: data is wanted of whoever has it, until the survey is closed."""
        number, kind = request.match_info["number"], request.match_info["kind"]
        record = {"payload": {"upload_to": f"{self.own_url}/uploads/survey-{number}", "kind": kind}}
        path = f"surveys%2F{number}"
        await self._say("put", f"objects/{path}/description", {"Survey": "open", "Kind": kind})
        await self._say("post", f"objects/{path}", record)
        say(f"opened survey {number}, about {kind}", event="opened", number=number)
        return web.Response(status=204)

    async def close(self, request: web.Request) -> web.Response:
        """POST /close/{number}: enough was uploaded. Only the changed part of the description is sent."""
        number = request.match_info["number"]
        await self._say("patch", f"objects/surveys%2F{number}/description", {"Survey": "closed"})
        say(f"closed survey {number}", event="closed", number=number)
        return web.Response(status=204)

    async def instruct(self, request: web.Request) -> web.Response:
        """POST /instruct: a message to all OUs."""
        self._instructions += 1
        payload = {"number": self._instructions, "text": await request.text()}
        await self._say("post", "channels/instructions", {"payload": payload})
        say(f"instruction {self._instructions} to everybody: {payload['text']}", event="instructed")
        return web.Response(status=204)

    async def _say(self, method: str, path: str, body: object) -> dict[str, object]:
        try:
            url = URL(f"{self._group_url}/{path}", encoded=True)
            async with self._session.request(method, url, json=body) as answer:
                answer.raise_for_status()
                said: dict[str, object] = await answer.json()
                return said
        except (ClientError, TimeoutError) as error:
            # It may have been published all the same; to ask again is safe.
            raise web.HTTPBadGateway(text=f"not known to be published, ask again: {error}\n") from error

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
        backend = ObservationBackend(session, f"{coldnotify}/v1/domains/{domain}/groups/{group}")
        routes = [
            web.post("/ask/{kind}", backend.ask),
            web.post("/survey/{number}/{kind}", backend.survey),
            web.post("/close/{number}", backend.close),
            web.post("/instruct", backend.instruct),
            web.post("/uploads/{kind}/{unit}", backend.take),
        ]
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
