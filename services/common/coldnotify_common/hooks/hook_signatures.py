"""The secrets and signatures of webhooks, in the form of Standard Webhooks (HMAC-SHA256). Pure.

No secret is stored: each is derived from the key of the installation, the hook's name and its rotation.
"""

import base64
import hashlib
import hmac
from collections.abc import Iterable

SECRET_PREFIX = "whsec_"
KEY_BYTES_MIN = 32
BOTH_S = 24 * 3600
"""After a rotation, calls are signed with the old secret, too, for this long."""


def secret_of(key: bytes, domain: str, group: str, name: str, rotation: int) -> str:
    """Returns the secret of a hook as its receiver is given it: whsec_ and 32 bytes in base64."""
    said = f"coldnotify-hook\0{domain}/{group}/{name}\0{rotation}"
    return SECRET_PREFIX + base64.b64encode(hmac.digest(key, said.encode(), hashlib.sha256)).decode()


def signature(secrets: Iterable[str], message_id: str, timestamp_s: int, body: bytes) -> str:
    """Returns the header webhook-signature: one signature for each secret, separated by spaces."""
    signed = f"{message_id}.{timestamp_s}.".encode() + body
    return " ".join(f"v1,{base64.b64encode(_digest(secret, signed)).decode()}" for secret in secrets)


def check_key(key: bytes) -> bytes:
    """Returns the key without the white space around it. Raises ValueError if it is too short."""
    key = key.strip()
    if len(key) < KEY_BYTES_MIN:
        raise ValueError(f"has {len(key)} bytes (at least {KEY_BYTES_MIN} are needed)")
    return key


def _digest(secret: str, signed: bytes) -> bytes:
    return hmac.digest(base64.b64decode(secret.removeprefix(SECRET_PREFIX)), signed, hashlib.sha256)
