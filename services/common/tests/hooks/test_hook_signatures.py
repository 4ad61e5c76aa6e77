import base64
import json
from datetime import UTC, datetime

import pytest
from coldnotify_common.hooks.hook_signatures import check_key, secret_of, signature
from standardwebhooks import Webhook, WebhookVerificationError

KEY = 32 * b"k"
BODY = json.dumps({"object": "a", "payload": "ä"}, ensure_ascii=False).encode()


def headers(secrets, body=BODY, message_id="obj_1"):
    now_s = int(datetime.now(UTC).timestamp())
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(now_s),
        "webhook-signature": signature(secrets, message_id, now_s, body),
    }


def test_the_reference_implementation_verifies_a_signature():
    secret = secret_of(KEY, "d", "g", "n", 1)
    assert Webhook(secret).verify(BODY, headers([secret])) == json.loads(BODY)


def test_it_refuses_another_body_id_or_secret():
    secret = secret_of(KEY, "d", "g", "n", 1)
    for one, said in (
        (secret, headers([secret], BODY + b" ")),
        (secret, {**headers([secret]), "webhook-id": "obj_2"}),
        (secret_of(KEY, "d", "g", "n", 2), headers([secret])),
    ):
        with pytest.raises(WebhookVerificationError):
            Webhook(one).verify(BODY, said)


def test_two_secrets_sign_while_one_replaces_the_other():
    old, new = (secret_of(KEY, "d", "g", "n", rotation) for rotation in (1, 2))
    both = headers([new, old])
    assert Webhook(old).verify(BODY, both)
    assert Webhook(new).verify(BODY, both)


def test_every_part_of_a_name_changes_the_secret():
    names = [("d", "g", "n", 1), ("d", "g", "n", 2), ("d", "gn", "n", 1), ("e", "g", "n", 1), ("d", "g", "m", 1)]
    secrets = {secret_of(KEY, *name) for name in names} | {secret_of(KEY + b"x", *names[0])}
    assert len(secrets) == 6
    assert all(len(base64.b64decode(one.removeprefix("whsec_"))) == 32 for one in secrets)
    assert secret_of(KEY, *names[0]) == secret_of(KEY, *names[0])


def test_a_short_key_is_refused():
    assert check_key(KEY + b"\n") == KEY
    with pytest.raises(ValueError, match="has 31 bytes"):
        check_key(31 * b"k" + b"\n")
