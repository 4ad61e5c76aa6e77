"""Who watches the other matchers: tests/integration/test_takeover_at_once.py has it watch; here it may not."""

from pathlib import Path

import pytest
from coldnotify_common.security.inside import Inside
from coldnotify_matcher import watched_deaths as module
from coldnotify_matcher.settings import MatcherSettings
from coldnotify_matcher.watched_deaths import watched_deaths
from structlog.testing import capture_logs


def test_with_a_login_that_it_does_not_know_it_watches_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kafka.properties"
    path.write_text("security.protocol=sasl_plaintext\nsasl.mechanism=OAUTHBEARER\n")
    monkeypatch.setattr(module, "DeathsWatch", None)
    settings = MatcherSettings(kafka_config=str(path))
    with capture_logs() as said, watched_deaths(settings, Inside(settings), lambda: None):
        pass
    (line,) = said
    assert line["event"] == "dead matchers are noticed late, by the session timeout"
    assert "knows PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, and not 'OAUTHBEARER'" in line["reason"]
