import pytest
from coldnotify_common.hooks.hook_settings import HookSettings
from coldnotify_common.settings import SettingError, load


def test_without_a_file_there_are_no_webhooks():
    assert load(HookSettings, {}).hooks_key() is None


def test_a_key_is_read_and_one_that_is_short_or_missing_names_the_setting(tmp_path):
    path = tmp_path / "hooks.key"
    settings = load(HookSettings, {"COLDNOTIFY_HOOKS_KEY_FILE": str(path)})
    with pytest.raises(SettingError, match="COLDNOTIFY_HOOKS_KEY_FILE"):
        settings.hooks_key()
    path.write_bytes(b"short")
    with pytest.raises(SettingError, match="at least 32"):
        settings.hooks_key()
    path.write_bytes(40 * b"k" + b"\n")
    assert settings.hooks_key() == 40 * b"k"


@pytest.mark.parametrize(("name", "text"), [("NETWORKS", "10.0.0.1/8"), ("PORTS", "0"), ("SCHEMES", "http")])
def test_a_wrong_permission_names_the_setting(name, text):
    with pytest.raises(SettingError, match=f"COLDNOTIFY_HOOKS_{name}"):
        load(HookSettings, {f"COLDNOTIFY_HOOKS_{name}": text})


def test_permissions_are_those_of_the_settings():
    urls = load(HookSettings, {"COLDNOTIFY_HOOKS_PORTS": "8443", "COLDNOTIFY_HOOKS_NETWORKS": "10.0.0.0/8"}).hook_urls()
    assert urls.check("https://10.1.1.1:8443/") == "10.1.1.1"
