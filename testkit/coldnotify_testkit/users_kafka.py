"""ConfigWithUsers: an embedded Kafka with a second listener, on which clients log in; the first one may all."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from coldnotify_kafka.broker.config import BrokerConfig


@dataclass(frozen=True)
class ConfigWithUsers(BrokerConfig):
    """SASL on the second listener: PLAIN for the `users`, SCRAM-SHA-512 for those that a test adds to Kafka."""

    users_port: int = 0
    users: Mapping[str, str] = field(default_factory=dict)
    """Their names and passwords."""
    keystore: Path | None = None
    """PEM with key and certificate, for TLS on that listener; None: without TLS."""

    def server_properties(self) -> str:
        """Returns the properties of BrokerConfig, and the second listener."""
        listener = f"USERS://127.0.0.1:{self.users_port}"
        users = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
        lines = [
            f"{line},{listener}" if line.startswith(("listeners=", "advertised.listeners=")) else line
            for line in super().server_properties().splitlines()
        ]
        protocol = "SASL_PLAINTEXT" if self.keystore is None else "SASL_SSL"
        lines += [
            f"listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,USERS:{protocol}",
            "listener.name.users.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512",
            "listener.name.users.scram-sha-512.sasl.jaas.config="
            "org.apache.kafka.common.security.scram.ScramLoginModule required;",
            "listener.name.users.plain.sasl.jaas.config="
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};",
        ]
        if self.keystore is not None:
            lines += [
                "listener.name.users.ssl.keystore.type=PEM",
                f"listener.name.users.ssl.keystore.location={self.keystore}",
            ]
        return "\n".join(lines) + "\n"
