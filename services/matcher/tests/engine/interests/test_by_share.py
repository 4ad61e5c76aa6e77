from coldnotify_matcher.engine.interests.by_share import ByShare, ClientShare
from coldnotify_schemas.interests import Interest, Kind, share_hash, share_text


def test_a_share_is_known_by_its_hash_and_its_key() -> None:
    text = share_text("workers", "a/b", ["x"])
    share = ClientShare("d/g", text, 7, 1, 0)
    shares = ByShare()
    shares.add(share)

    assert (share.key, share.channel, share.attributes) == ("d/g/workers/a/b", "d/g/a/b", ("x",))
    assert shares == {share_hash(text): share}
    assert shares.by_key == {share.key: share}
    assert list(shares.interests()) == [Interest(Kind.SHARE, text)]

    shares.remove(share)
    assert not shares
    assert not shares.by_key
