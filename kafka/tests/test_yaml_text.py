from importlib.resources import files

import pytest
import yaml
from coldnotify_kafka.yaml_text import read_yaml


@pytest.fixture(params=["libyaml", "without libyaml"], autouse=True)
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without libyaml":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)


@pytest.mark.parametrize("name", ["topics.yaml", "acls.yaml"])
def test_yaml_is_read_as_by_pyyaml(name: str) -> None:
    text = files("coldnotify_kafka").joinpath(name).read_text(encoding="utf-8")
    assert read_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize("text", ["a: [1", "a: b: c", "!!python/object/apply:os.getcwd []"])
def test_invalid_yaml_and_yaml_that_would_run_code_are_refused(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        read_yaml(text)
