"""A back-end for region-specific configuration: publishes a version when a file changes, and serves the file.

    python -m coldnotify_demo.configuration_backend FOLDER [--kafka HOST:PORT] [--http-port PORT]

FOLDER/region-1/camera-config.yaml becomes object camera-config of group region-1, and
GET /region-1/camera-config gives its newest content.
"""

import argparse
import asyncio
from pathlib import Path

from aiohttp import web
from coldnotify.publisher import Publisher, PublishError

from coldnotify_demo.configuration_folder import Configuration, ConfigurationFolder
from coldnotify_demo.hosting import run_until_stopped, serving
from coldnotify_demo.saying import say

LOOK_INTERVAL_S = 0.1
RETRY_S = 1.0


class ConfigurationBackend:
    """Watches the folder; holds the files that it serves in memory."""

    def __init__(self, folder: Path, domain: str, publisher: Publisher) -> None:
        self._folder = ConfigurationFolder(folder, on_unusable=lambda words: say(f"not published: {words}"))
        self._domain = domain
        self._publisher = publisher
        self._newest: dict[tuple[str, str], Configuration] = {}

    async def watch(self) -> None:
        """For ever."""
        while True:
            for configuration in self._folder.changes():
                # Served first: whoever is told may come for it at once.
                self._newest[configuration.group, configuration.name] = configuration
                await self._publish(configuration)
            await asyncio.sleep(LOOK_INTERVAL_S)

    async def _publish(self, configuration: Configuration) -> None:
        """Publishes until Kafka has it. Publishing a version twice is safe, so the result of an attempt need not be
        known.
        """
        group, name, version = configuration.group, configuration.name, configuration.version
        deleted = configuration.content is None
        while True:
            try:
                await self._publisher.publish_async(self._domain, group, name, version=version, deleted=deleted)
                break
            except PublishError as error:
                say(f"trying again: {error}")
                await asyncio.sleep(RETRY_S)
        what = "the removal of " if deleted else ""
        say(
            f"published {what}{name} version {version} ({group})",
            event="published",
            key=f"{group}/{name}",
            version=version,
        )

    async def get(self, request: web.Request) -> web.Response:
        """GET /{group}/{name}"""
        configuration = self._newest.get((request.match_info["group"], request.match_info["name"]))
        if configuration is None or configuration.content is None:
            raise web.HTTPNotFound
        return web.Response(
            body=configuration.content,
            content_type="application/yaml",
            headers={"Configuration-Version": str(configuration.version)},
        )


async def run(folder: Path, domain: str, kafka: str, http_port: int) -> None:
    """Serves and watches until cancelled."""
    async with Publisher(kafka) as publisher:
        backend = ConfigurationBackend(folder, domain, publisher)
        async with serving([web.get("/{group}/{name}", backend.get)], http_port) as url:
            say(f"serving configurations at {url}", event="serving", url=url)
            await backend.watch()


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="Publish and serve a folder of YAML configurations.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--domain", default="animal.observer")
    parser.add_argument("--kafka", default="127.0.0.1:9092")
    parser.add_argument("--http-port", type=int, default=0)
    args = parser.parse_args()
    run_until_stopped(run(args.folder, args.domain, args.kafka, args.http_port))


if __name__ == "__main__":
    main()
