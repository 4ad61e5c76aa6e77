"""The settings of who asks the ports for looking in. Commands have them, too, without the log that `inside` writes."""

from dataclasses import dataclass

from coldnotify_common.settings import Settings, setting


@dataclass(frozen=True, kw_only=True)
class AskInsideSettings(Settings):
    """What asking the ports for looking in needs."""

    inside_certificate: str = setting(
        "",
        "PEM file of the certificate that services show each other, and operators show to services, with its "
        "intermediate certificates; turns TLS on for the HTTP ports of matchers and gateways; read again when it "
        "changes",
    )
    inside_key: str = setting("", "PEM file of the certificate's private key; empty: it is in the certificate's file")
    inside_ca: str = setting("", "PEM file of the authorities that sign these certificates")
