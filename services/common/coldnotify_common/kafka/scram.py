"""SCRAM (RFC 5802) for a client, without channel binding: two messages, each answered by the server. Pure."""

import base64
import hashlib
import hmac

_ITERATIONS_MAX = 1_000_000
"""A server that names more would keep this process computing for seconds."""


class ScramError(Exception):
    """The server's message is not valid, or not by somebody who knows the password."""


class Scram:
    """One login. Call `first`, `final` with the answer to it, and `check` with the answer to that."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str) -> None:
        """`mechanism`: SCRAM-SHA-256 or SCRAM-SHA-512. `nonce`: random printable characters without a comma."""
        self._hash = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
        self._password = password.encode()
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first = f"n={name},r={nonce}"
        self._signature = b""

    def first(self) -> bytes:
        """Returns the first message."""
        return f"n,,{self._first}".encode()

    def final(self, answer: bytes) -> bytes:
        """Returns the second message, which proves that the password is known. Raises ScramError."""
        fields = _fields(answer)
        try:
            nonce, salt, iterations = fields["r"], base64.b64decode(fields["s"], validate=True), int(fields["i"])
        except (KeyError, ValueError):
            raise ScramError("the first answer is not valid") from None
        if not nonce.startswith(self._nonce) or not 0 < iterations <= _ITERATIONS_MAX:
            raise ScramError("the first answer is not to this login")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        key = self._hmac(salted, b"Client Key")
        end = f"c=biws,r={nonce}"  # biws: "n,,"
        signed = ",".join((self._first, answer.decode(), end)).encode()
        signature = self._hmac(hashlib.new(self._hash, key).digest(), signed)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{end},p={base64.b64encode(proof).decode()}".encode()

    def check(self, answer: bytes) -> None:
        """Raises ScramError if the server does not know the password."""
        try:
            signature = base64.b64decode(_fields(answer)["v"], validate=True)
        except (KeyError, ValueError):
            raise ScramError("the second answer is not valid") from None
        if not hmac.compare_digest(signature, self._signature):
            raise ScramError("the server does not know the password")

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._hash)


def _fields(message: bytes) -> dict[str, str]:
    return {part[:1]: part[2:] for part in message.decode("utf-8", "replace").split(",")}
