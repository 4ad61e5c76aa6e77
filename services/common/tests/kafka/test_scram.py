"""SCRAM by the examples of RFC 7677, and servers that do not know the password."""

import pytest
from coldnotify_common.kafka.scram import Scram, ScramError

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def login(username: str = "user", nonce: str = NONCE) -> Scram:
    return Scram("SCRAM-SHA-256", username, "pencil", nonce)


def test_the_example_of_the_rfc() -> None:
    scram = login()
    assert scram.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert scram.final(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    scram.check(SERVER_FINAL)


def test_a_name_with_a_comma_is_escaped() -> None:
    assert login("a,b=c").first() == b"n,,n=a=2Cb=3Dc,r=rOprNGfwEbeRWgbNEkqO"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "not valid"),
        (b"r=x,s=!,i=1", "not valid"),
        (b"r=rOprNGfwEbeRWgbNEkqO1,s=AAAA,i=many", "not valid"),
        (b"r=other,s=AAAA,i=1", "not to this login"),
        (b"r=rOprNGfwEbeRWgbNEkqO1,s=AAAA,i=99999999", "not to this login"),
    ],
)
def test_a_first_answer_that_is_no_answer(answer: bytes, words: str) -> None:
    with pytest.raises(ScramError, match=words):
        login().final(answer)


@pytest.mark.parametrize("answer", [b"v=AAAA", b"e=other-error", b"v=!"])
def test_a_server_that_does_not_know_the_password(answer: bytes) -> None:
    scram = login()
    scram.final(SERVER_FIRST)
    with pytest.raises(ScramError):
        scram.check(answer)
