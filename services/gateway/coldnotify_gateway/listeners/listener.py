"""The interface of a listener: a port of the process, with an object that serves it in each run."""

from typing import Protocol

from coldnotify_common.security.tls import ServerTls

from coldnotify_gateway.shell import GatewayShell


class Serving(Protocol):
    """A listener's part in one run of the gateway: accepts connections and hands them to the shell."""

    @property
    def connections(self) -> int:
        """Returns the number of open connections that the core may not know of."""

    def take_connection_peak(self) -> int:
        """Returns the highest number of these at one time since the last call."""

    def tick(self) -> None:
        """Does timed work. The run calls it about every quarter of a second."""

    def stop_listening(self) -> None:
        """Stops accepting connections; open ones stay."""

    async def stop(self) -> None:
        """Ends the remaining connections. The sessions were closed before."""


class Listener(Protocol):
    """A listener for devices, from the process's start to its end, through all runs of the gateway."""

    port: int
    """The actual port number."""

    def listen_early(self) -> None:
        """Starts listening, so that devices wait until a run serves them. Raises ListenError."""

    def end_early(self) -> None:
        """Closes the connections that still wait, and accepts no others, because another gateway may serve them
        sooner."""

    async def serve(self, shell: GatewayShell, tls: ServerTls) -> Serving:
        """Accepts connections for a run. Raises ListenError. A cancelled call releases everything."""

    def close(self) -> None:
        """Releases the port."""
