"""The limit on the payloads of objects, the same for all services, because writers and readers must agree."""

from dataclasses import dataclass

from coldnotify_schemas.records import LARGEST_PAYLOAD_BYTES, PAYLOAD_BYTES_MAX

from coldnotify_common.settings import Settings, setting


@dataclass(frozen=True, kw_only=True)
class ObjectSettings(Settings):
    """The settings for writing and reading objects."""

    object_payload_bytes_max: int = setting(
        PAYLOAD_BYTES_MAX,
        "maximum size of a version's payload (bytes). The same for all matchers, gateways and HTTP services, and for "
        "publishers to Kafka: matchers reject a record with a longer one. To raise it, begin with the matchers; if it "
        "is lowered, objects lose versions that are longer",
        minimum=PAYLOAD_BYTES_MAX,
        maximum=LARGEST_PAYLOAD_BYTES,
    )
