"""How long channels are kept, as services are told it."""

import pytest
from coldnotify_common.errors import SettingError
from coldnotify_common.settings.channel_settings import ChannelSettings
from coldnotify_schemas.channels import Retention


def test_each_domain_has_a_retention_and_all_others_have_one_for_a_day() -> None:
    retentions = ChannelSettings(channel_retentions="animal.observer=30d,fast=1h").retentions()
    assert [retentions.of(domain) for domain in ("animal.observer", "fast", "any")] == [
        Retention.MONTH,
        Retention.HOUR,
        Retention.DAY,
    ]
    assert ChannelSettings().retentions().used == [Retention.DAY]


@pytest.mark.parametrize("text", ["animal.observer", "*=2d", "a/b=1d", "a=1d,a=1h"])
def test_what_cannot_be_a_retention_is_named_with_its_setting(text: str) -> None:
    with pytest.raises(SettingError, match="channel-retentions"):
        ChannelSettings(channel_retentions=text).retentions()
