import json

from specc_runtime.stats import RoundRecord, Stats


def test_rounds_add_up() -> None:
    stats = Stats()
    stats.record_round(drafted=4, accepted=4, emitted=5)
    stats.record_round(drafted=4, accepted=1, emitted=2)
    stats.record_round(drafted=2, accepted=0, emitted=1)
    stats.record_round(drafted=0, accepted=0, emitted=1)
    assert stats.rounds == 4
    assert stats.spec_decode_num_drafts == 3
    assert stats.spec_decode_num_draft_tokens == 10
    assert stats.spec_decode_num_accepted_tokens == 5
    assert stats.spec_decode_num_accepted_tokens_per_pos == [2, 1, 1, 1]
    assert stats.emitted_tokens == 9
    assert stats.acceptance_rate == 0.5
    assert stats.tokens_per_round == 9 / 4


def test_nothing_done_is_zero_not_an_error() -> None:
    assert Stats().acceptance_rate == 0
    assert Stats().tokens_per_round == 0


def test_as_dict_is_json_with_vllms_names() -> None:
    stats = Stats(verify_s=0.25)
    stats.record_round(drafted=2, accepted=1, emitted=2)
    read = json.loads(json.dumps(stats.as_dict()))
    assert read["spec_decode_num_accepted_tokens_per_pos"] == [1, 0]
    assert read["verify_s"] == 0.25
    assert read["acceptance_rate"] == 0.5
    assert read["tokens_per_round"] == 2


def test_last_round_is_kept_apart_from_the_totals() -> None:
    stats = Stats()
    assert stats.last_round is None
    stats.record_round(drafted=4, accepted=2, emitted=3)
    assert stats.last_round == RoundRecord(drafted=4, accepted=2, emitted=3)
    assert "last_round" not in stats.as_dict()
