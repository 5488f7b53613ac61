import numpy as np

from specc.assembly.core_text import CoreText
from tests.models.support import oracle_runner, random_decoder, token_ids


def test_logits_are_those_of_feeding_step_by_step() -> None:
    graph, ids = random_decoder(), token_ids(9)
    expected = oracle_runner(graph).feed_in([4, 1, 1, 3], ids)
    np.testing.assert_allclose(CoreText(graph).logits(ids), expected, rtol=0, atol=1e-5)


def test_each_text_starts_anew_and_the_graph_stays_as_it_was() -> None:
    graph = random_decoder()
    inputs = [value.name for value in graph.graph.inputs]
    text = CoreText(graph)
    first = text.logits(token_ids(6))
    text.logits(token_ids(6, seed=1))
    np.testing.assert_array_equal(text.logits(token_ids(6)), first)
    assert [value.name for value in graph.graph.inputs] == inputs


def test_a_text_may_be_fed_in_pieces() -> None:
    graph, ids = random_decoder(), token_ids(9)
    text = CoreText(graph)
    first, state = text.feed(ids[:5], 0, text.empty_state())
    second, _ = text.feed(ids[5:], 5, state)
    np.testing.assert_allclose(np.concatenate([first, second]), text.logits(ids), rtol=0, atol=1e-5)
