"""The TLS options of `coldnotify up --tls DIR` for its parts: mutual TLS with the files of `coldnotify certs DIR`."""

import os
import ssl
from pathlib import Path

from coldnotify_common.errors import SettingError
from coldnotify_parts.registry import PARTS


class TlsParts:
    """The flags of each part; none without a directory."""

    def __init__(self, directory: str) -> None:
        """Raises SettingError."""
        self._directory = Path(directory) if directory else None
        if self._directory is not None:
            needed = [
                self._directory / f"{name}.{end}"
                for name in (*(row.name for row in PARTS if row.certificate), "inside")
                for end in ("pem", "key")
            ]
            for path in (self.ca, *needed):
                if not path.is_file():
                    raise SettingError(
                        f"COLDNOTIFY_TLS / --tls: there is no {path}: run `coldnotify certs {directory}`"
                    )

    @property
    def on(self) -> bool:
        """True if TLS is used."""
        return self._directory is not None

    @property
    def scheme(self) -> str:
        """The scheme of all HTTP addresses."""
        return "https" if self.on else "http"

    @property
    def ca(self) -> Path:
        """The path of the authority's certificate; the directory must be set."""
        assert self._directory is not None
        return self._directory / "ca.pem"

    def inside_flags(self) -> list[str]:
        """For every part: how they know each other."""
        if self._directory is None:
            return []
        certificate, key = self._inside
        return [f"--inside-certificate={certificate}", f"--inside-key={key}", f"--inside-ca={self.ca}"]

    def flags(self, part: str) -> list[str]:
        """Returns the flags of the part with the certificate of this name. --auth is certificate, unless the
        environment sets it.

        Tokens, if the environment asks for them, are checked with the directory's key, unless the environment names
        another one.
        """
        if self._directory is None:
            return []
        auth = os.environ.get("COLDNOTIFY_AUTH", "certificate")
        flags = [
            f"--tls-certificate={self._directory / f'{part}.pem'}",
            f"--tls-key={self._directory / f'{part}.key'}",
            f"--tls-client-ca={self.ca}",
            f"--auth={auth}",
        ]
        token_key = self._directory / "token.pem"
        if auth in ("token", "any") and not os.environ.get("COLDNOTIFY_AUTH_TOKEN_KEY") and token_key.is_file():
            flags.append(f"--auth-token-key={token_key}")
        return flags

    def context(self) -> ssl.SSLContext | None:
        """Returns the TLS context for asking the parts whether they are ready."""
        return ssl.create_default_context(cafile=str(self.ca)) if self.on else None

    @property
    def _inside(self) -> tuple[Path, Path]:
        assert self._directory is not None
        return self._directory / "inside.pem", self._directory / "inside.key"
