"""The limit on payloads, as services are told it."""

import pytest
from coldnotify_common.errors import SettingError
from coldnotify_common.settings import load
from coldnotify_common.settings.object_settings import ObjectSettings

NAME = "COLDNOTIFY_OBJECT_PAYLOAD_BYTES_MAX"


def test_it_is_4_kib_and_may_be_up_to_64() -> None:
    assert load(ObjectSettings, {}).object_payload_bytes_max == 4096
    assert load(ObjectSettings, {NAME: "65536"}).object_payload_bytes_max == 65_536


@pytest.mark.parametrize("number", ["4095", "65537", "0", "4k"])
def test_no_other_limit_is_taken(number: str) -> None:
    with pytest.raises(SettingError, match="--object-payload-bytes-max"):
        load(ObjectSettings, {NAME: number})
