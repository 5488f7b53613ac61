from functools import partial
from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

from specc.errors import OptionError, PassError
from specc.passes.quantize_linears import quantize_linears
from specc.passes.running import pass_name, run_passes
from specc.passes.trim_head import trim_head
from tests.models.support import random_decoder


def keep(model: ir.Model) -> ir.Model:
    return model


def break_off(model: ir.Model, reason: str) -> ir.Model:
    raise OptionError(reason)


def lose_a_cache(model: ir.Model) -> ir.Model:
    del model.graph.outputs[-1]
    return model


def test_passes_run_in_order_with_their_options() -> None:
    model = run_passes(random_decoder(), [partial(trim_head, ids=9), partial(quantize_linears, parts=["head"])])
    assert "verifier.head.first9.q8b64.codes" in model.graph.initializers


def test_names() -> None:
    assert pass_name(keep) == "keep"
    assert pass_name(partial(partial(trim_head, ids=3))) == "trim_head"


def test_a_failing_pass_names_itself_and_those_before_it() -> None:
    passes = [keep, partial(trim_head, ids=5), partial(break_off, reason="no room"), keep]
    with pytest.raises(PassError, match=r"^pass 'break_off' failed after \['keep', 'trim_head'\]: no room$") as error:
        run_passes(random_decoder(), passes)
    assert isinstance(error.value.__cause__, OptionError)
    with pytest.raises(PassError, match=r"^pass 'break_off' failed: no room$"):
        run_passes(random_decoder(), passes[2:])


def test_a_pass_that_breaks_the_graph_is_named() -> None:
    with pytest.raises(
        PassError,
        match=r"^pass 'lose_a_cache' after \['keep'\] broke the core graph 'verifier': cache '1\.value' has no",
    ):
        run_passes(random_decoder(), [keep, lose_a_cache])


def test_a_graph_that_is_broken_from_the_start_is_not_blamed_on_a_pass() -> None:
    with pytest.raises(PassError, match=r"^the graph that the passes were given broke"):
        run_passes(lose_a_cache(random_decoder()), [keep])


def test_every_stage_is_dumped_as_text_without_weights(tmp_path: Path) -> None:
    folder = tmp_path / "stages"
    run_passes(random_decoder(), [keep, partial(trim_head, ids=9)], dump=folder)
    assert sorted(p.name for p in folder.iterdir()) == ["00_input.onnxtxt", "01_keep.onnxtxt", "02_trim_head.onnxtxt"]
    texts = [(folder / name).read_text() for name in ("00_input.onnxtxt", "02_trim_head.onnxtxt")]
    heads = ["verifier.head", "verifier.head.first9"]
    for text, head in zip(texts, heads, strict=True):
        assert len(text) < 20_000
        inputs = {value.name for value in onnx.parser.parse_model(text).graph.input}
        assert head in inputs
        assert not set(heads) - {head} & inputs
