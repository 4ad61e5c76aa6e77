"""Checks the names to which a request publishes, and writes its publisher as the source.

Who may publish to some names of a group only has to be their owner. All raise NotGranted, which `authorized` answers.
"""

from collections.abc import Sequence

from aiohttp import web
from coldnotify.publisher import CheckedMessage
from coldnotify_common.http.web_auth import IDENTITY
from coldnotify_common.security.publish_rights import EVERY_NAME, PublishRight
from msgspec.structs import replace

from coldnotify_http.bodies import Named
from coldnotify_http.message_bodies import NamedMessage


def owned_records(request: web.Request, domain: str, group: str, records: Sequence[Named]) -> Sequence[Named]:
    """Returns the records as they are to be written. Raises NotGranted."""
    right = _right(request, domain, group)
    if right.every:
        return records
    return [(name, replace(record, source=right.publisher("object", name, record.source))) for name, record in records]


def owned_messages(
    request: web.Request, domain: str, group: str, messages: Sequence[NamedMessage]
) -> Sequence[NamedMessage]:
    """Returns the messages as they are to be written. Raises NotGranted."""
    right = _right(request, domain, group)
    if right.every:
        return messages
    return [
        (name, CheckedMessage(payload, said._replace(source=right.publisher("channel", name, said.source))))
        for name, (payload, said) in messages
    ]


def check_described(request: web.Request, domain: str, group: str, name: str) -> None:
    """Checks that the caller may describe this object. Raises NotGranted."""
    _right(request, domain, group).publisher("object", name, None)


def _right(request: web.Request, domain: str, group: str) -> PublishRight:
    identity = request.get(IDENTITY)
    return EVERY_NAME if identity is None else identity.publish_right(domain, group)
