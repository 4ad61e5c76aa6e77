import random

from coldnotify_hooks.core.ownership import CALL_S, PROOF_S, WAIT_S, Ownership


def held(owner="me", now_s=0.0):
    own = Ownership(owner)
    own.on_claim(own.next_claim(), owner, now_s)
    return own


def test_nothing_is_called_before_the_claim_is_read_back_the_wait_is_over_and_a_proof_is_there():
    own = Ownership("me")
    generation = own.next_claim()
    own.on_end(10.0, 0)
    assert not own.may_call(10.0)
    assert own.on_claim(generation, "me", 10.0) is False
    own.on_read(1)
    assert not own.serves(10.0 + WAIT_S - 0.01)
    assert not own.may_call(10.0 + WAIT_S)
    own.on_end(10.0 + WAIT_S, 1)
    assert own.may_call(10.0 + WAIT_S)


def test_a_proof_is_good_for_a_second_from_its_question_on():
    own = held()
    own.on_read(5)
    own.on_end(20.0, 5)
    assert own.may_call(20.0 + PROOF_S)
    assert not own.may_call(20.0 + PROOF_S + 0.01)


def test_an_end_proves_nothing_until_all_below_it_was_read():
    own = held()
    own.on_read(5)
    own.on_end(20.0, 7)
    assert not own.may_call(20.1)
    own.on_read(6)
    assert not own.may_call(20.1)
    own.on_read(7)
    assert own.may_call(20.1)


def test_a_higher_claim_ends_it_for_good():
    own = held()
    own.on_claim(2, "other", 5.0)
    assert own.lost
    own.on_end(30.0, 0)
    assert not own.may_call(30.0)


def test_a_lower_claim_of_a_process_that_stood_still_changes_nothing():
    own = Ownership("me")
    own.on_claim(7, "old", 0.0)
    own.on_claim(own.next_claim(), "me", 0.0)
    assert own.generation == 8
    assert own.on_claim(7, "old", 1.0) is False
    assert own.on_claim(8, "old", 1.0) is False
    assert not own.lost


def test_two_with_one_generation_have_it_in_the_order_of_the_log():
    own = Ownership("me")
    generation = own.next_claim()
    assert own.on_claim(generation, "other", 0.0) is True
    assert own.next_claim() == generation + 1
    # Its first claim comes back; it is about to claim the next one.
    assert own.on_claim(generation, "me", 0.1) is False
    assert own.on_claim(generation + 1, "me", 0.2) is False
    assert own.serves(0.2 + WAIT_S)


def test_a_process_that_stood_still_never_calls_beside_its_successor():
    """Whatever the pauses: the predecessor's last beginning of a call is before the successor's first."""
    for seed in range(500):
        draw = random.Random(seed)
        log: list[tuple[int, str]] = []
        parts = [Ownership("a"), Ownership("b")]
        read = [0, 0]
        awake_s = [0.0, 0.0]
        calls: list[tuple[float, str]] = []
        log.append((parts[0].next_claim(), "a"))
        claimed_b_s = draw.uniform(4, 12)
        now_s, has_claimed = 0.0, False
        while now_s < 40:
            now_s += 0.1
            for index, name in enumerate("ab"):
                if now_s < awake_s[index]:
                    continue
                if draw.random() < 0.02:
                    awake_s[index] = now_s + draw.uniform(0, 12)
                    continue
                if index and now_s < claimed_b_s:
                    continue
                own, asked_s = parts[index], now_s
                own.on_end(asked_s, len(log))
                while read[index] < len(log) and draw.random() < 0.9:
                    own.on_claim(*log[read[index]], now_s)
                    read[index] += 1
                    own.on_read(read[index])
                if index and not has_claimed and read[index] == len(log):
                    has_claimed = True
                    log.append((own.next_claim(), "b"))
                if own.may_call(now_s):
                    calls.append((now_s, name))
        of_b = [at_s for at_s, name in calls if name == "b"]
        of_a = [at_s for at_s, name in calls if name == "a"]
        assert of_b, seed
        assert not of_a or max(of_a) < min(of_b), seed


def test_the_numbers_fit_each_other():
    assert PROOF_S < WAIT_S < CALL_S
