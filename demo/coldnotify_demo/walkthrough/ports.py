"""The ports of the walkthrough: the usual ones, or others if one of them is taken."""

from dataclasses import asdict, dataclass
from typing import Self

from coldnotify_kafka.broker.free_ports import check_port_is_free, free_port
from coldnotify_kafka.errors import BrokerError


@dataclass(frozen=True)
class Ports:
    """All of them on 127.0.0.1."""

    kafka: int = 9092
    matcher: int = 51001
    gateway: int = 55000
    gateway_http: int = 55001
    http: int = 55002
    web: int = 55003
    page: int = 8000

    @classmethod
    def usual(cls) -> Self:
        """These, if all are free."""
        ports = cls()
        try:
            for name, port in asdict(ports).items():
                check_port_is_free("127.0.0.1", port, name)
        except BrokerError:
            return cls.free()
        return ports

    @classmethod
    def free(cls) -> Self:
        """Others that nothing listens on now."""
        return cls(**{name: free_port() for name in asdict(cls())})

    def flags(self) -> str:
        """For `coldnotify up`; none for the usual ones."""
        if self == Ports():
            return ""
        flags = (
            f"--kafka-port={self.kafka} --matcher-port={self.matcher} --gateway-port={self.gateway} "
            f"--gateway-http-port={self.gateway_http} --gateway-web-port={self.web} --http-port={self.http}"
        )
        return f" {flags}"

    def put_into(self, text: str) -> str:
        """A program's text, with these in the places of the usual ones."""
        for name, usual in asdict(Ports()).items():
            text = text.replace(f":{usual}", f":{getattr(self, name)}")
        return text.replace(f", {Ports().gateway},", f", {self.gateway},")
