from importlib.resources import files

import pytest
import yaml
from coldnotify_kafka.yaml_text import read_yaml


@pytest.fixture(params=["libyaml", "without libyaml"], autouse=True)
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without libyaml":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)


@pytest.mark.parametrize("name", ["topics.yaml", "acls.yaml"])
def test_it_reads_what_pyyaml_reads(name: str) -> None:
    text = files("coldnotify_kafka").joinpath(name).read_text(encoding="utf-8")
    assert read_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize("text", ["a: [1", "a: b: c", "!!python/object/apply:os.getcwd []"])
def test_what_is_no_yaml_or_would_run_something_is_refused(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        read_yaml(text)
