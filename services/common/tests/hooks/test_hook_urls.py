import pytest
from coldnotify_common.hooks.hook_urls import URL_LENGTH_MAX, HookUrls, RefusedUrl, literal_of

PUBLIC = "93.184.215.14"
STRICT = HookUrls()


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",  # where clouds keep their machines' secrets
        "100.64.0.1",
        "100.127.255.254",
        "224.0.0.1",
        "239.255.255.250",
        "255.255.255.255",
        "192.0.2.1",
        "198.18.0.1",
        "240.0.0.1",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "2606:2800:21f::1%eth0",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "ff0e::1",
        "::ffff:93.184.215.14",
        "::ffff:127.0.0.1",
        "2002:7f00:1::",
        "2002:5db8:d70e::",
        "64:ff9b::5db8:d70e",
        "64:ff9b:1::7f00:1",
        "2001:db8::1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    ],
)
def test_an_address_that_is_not_out_there_is_refused(address):
    with pytest.raises(RefusedUrl, match=r"^url: name leads to an address that is not allowed") as refused:
        STRICT.judge("name", [address])
    assert address not in str(refused.value)


@pytest.mark.parametrize("address", [PUBLIC, "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "1.1.1.1"])
def test_a_global_address_is_allowed(address):
    assert STRICT.judge("name", [address]) == [address]


def test_one_refused_answer_refuses_the_whole_resolution():
    with pytest.raises(RefusedUrl):
        STRICT.judge("name", [PUBLIC, "10.0.0.1"])
    with pytest.raises(RefusedUrl, match="has no address"):
        STRICT.judge("name", [])
    with pytest.raises(RefusedUrl, match="something else"):
        STRICT.judge("name", ["a name"])


def test_networks_of_the_settings_are_allowed_and_nothing_beside_them():
    allowed = HookUrls.of("127.0.0.0/8, ::ffff:10.0.0.0/104", "8080 9000", "https,http")
    assert allowed.judge("name", ["127.0.0.1", "127.9.9.9", "::ffff:10.1.1.1"])
    with pytest.raises(RefusedUrl):
        allowed.judge("name", ["10.1.1.1"])
    with pytest.raises(RefusedUrl, match="IPv4-mapped"):
        allowed.judge("name", ["::ffff:127.0.0.1"])
    assert allowed.check("http://127.0.0.1:9000/x") == "127.0.0.1"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://example.org/", "begins with 'http'"),
        ("ftp://example.org/", "begins with 'ftp'"),
        ("file:///etc/passwd", "begins with 'file'"),
        ("example.org", "begins with ''"),
        ("https://user:secret@example.org/", "password"),
        ("https://user@example.org/", "password"),
        ("https://@example.org/", "password"),
        ("https://example.org/#part", "fragment"),
        ("https:///path", "names no host"),
        ("https://example.org:8443/", "port 8443"),
        ("https://example.org:0/", "port 0"),
        ("https://example.org:99999/", "ort"),
        ("https://example.org:x/", "ort"),
        ("https://127.0.0.1/", "not global"),
        ("https://[::1]/", "not global"),
        ("https://[::ffff:1.1.1.1]/", "IPv4-mapped"),
        ("https://[fe80::1%25eth0]/", "eth0|not allowed|usual form"),
        ("https://2130706433/", "usual form"),
        ("https://0x7f000001/", "usual form"),
        ("https://127.1/", "usual form"),
        ("https://0177.0.0.1/", "usual form"),
        ("https://a b/", "characters"),
        ("https://a\\b/", "characters"),
        ("https://a/\r\nHost: b", "characters"),
        ("https://münchen.example/", "characters"),
        ("https://a/" + URL_LENGTH_MAX * "x", "characters"),
        ("https://[::1/", "Invalid|not allowed"),
    ],
)
def test_a_url_that_is_refused_says_why(url, words):
    with pytest.raises(RefusedUrl, match=words) as refused:
        STRICT.check(url)
    assert str(refused.value).startswith("url: ")


@pytest.mark.parametrize(
    "url", ["https://example.org", "https://example.org:443/a?b=c", "https://example.org:80/", "https://1.1.1.1/hook"]
)
def test_a_usual_url_is_allowed(url):
    assert STRICT.check(url)


def test_settings_that_cannot_be_read_name_the_word():
    for texts, word in (
        (("10.0.0.1/8", "", "https"), "10.0.0.1/8"),
        (("", "0", "https"), "'0'"),
        (("", "", "gopher"), "gopher"),
    ):
        with pytest.raises(ValueError, match=word):
            HookUrls.of(*texts)


def test_a_name_is_not_taken_for_an_address():
    assert literal_of("example.org") is None
    assert literal_of("1.example") is None
    assert str(literal_of("1.1.1.1")) == "1.1.1.1"
    with pytest.raises(RefusedUrl):
        literal_of("127.0.0.1.")
