"""What a listener is: a port of the process, and in each run somebody who serves it."""

from typing import Protocol

from coldnotify_common.security.tls import ServerTls

from coldnotify_gateway.shell import GatewayShell


class Serving(Protocol):
    """A listener's part in one run of the gateway: it accepts connections and hands them to the shell."""

    @property
    def connections(self) -> int:
        """Connections that are open and that the core need not know of."""

    def take_connection_peak(self) -> int:
        """The most of them at one time since this was asked last."""

    def tick(self) -> None:
        """Time has passed; called about every quarter of a second."""

    def stop_listening(self) -> None:
        """Takes no more connections; those that are there stay."""

    async def stop(self) -> None:
        """Ends what is left. The sessions were sent away before."""


class Listener(Protocol):
    """One way in for devices, from the process's start to its end, through all runs of the gateway."""

    port: int
    """The actual one."""

    def listen_early(self) -> None:
        """Devices wait from now on for who serves them. Raises ListenError."""

    def end_early(self) -> None:
        """Who still waits is sent away, and nobody else is let in: another gateway may have time for them."""

    async def serve(self, shell: GatewayShell, tls: ServerTls) -> Serving:
        """Accepts connections for a run. Raises ListenError. Cancelled, it leaves nothing behind."""

    def close(self) -> None:
        """Lets go of the port."""
