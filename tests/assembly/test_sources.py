from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from specc.assembly.sources import open_model, slice_of
from specc.errors import OptionError, UnsupportedError
from specc_runtime.manifest import ModelInfo
from tests.support.checkpoints import decoder_config, write_hf_checkpoint
from tests.support.refusals import refuses
from tests.support.tiny_models import FAMILIES, TOKENS, tiny_model, tiny_weights


def test_the_vocabulary_comes_from_the_weights(tmp_path: Path) -> None:
    config = decoder_config(vocab_size=340)
    weights = tiny_weights(config)
    source = open_model(str(write_hf_checkpoint(tmp_path, config | {"vocab_size": TOKENS}, weights)), ())
    assert (source.spec.vocab_rows, source.vocabulary.count) == (340, 340)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_dtype_is_what_most_weights_have(dtype: str, tmp_path: Path) -> None:
    config = decoder_config()
    narrow = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    weights = {n: a if "norm" in n else a.astype(narrow) for n, a in tiny_weights(config).items()}
    source = open_model(str(write_hf_checkpoint(tmp_path, config, weights)), ())
    assert source.dtype == {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}[dtype]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_parameters_are_counted_from_the_spec(family: str, bias: bool, tmp_path: Path) -> None:
    fields = {"attention_bias": True} if bias and family in ("llama", "qwen3") else {}
    config = decoder_config(model_type=family, **FAMILIES[family] | fields)
    source = open_model(str(write_hf_checkpoint(tmp_path, config, tiny_weights(config))), ())
    assert source.parameters == sum(array.size for array in tiny_weights(config).values())


def test_info_for_the_manifest(tmp_path: Path) -> None:
    source = open_model(str(tiny_model(tmp_path)), ())
    assert source.info(context=40) == ModelInfo(
        name=str(tmp_path),
        model_type="llama",
        layers=3,
        hidden_size=64,
        vocab_rows=TOKENS,
        context=40,
        parameters=source.parameters,
    )


def test_a_slice_is_the_verifier_with_fewer_layers(tmp_path: Path) -> None:
    verifier = open_model(str(tiny_model(tmp_path)), ())
    drafter = slice_of(verifier, 2)
    assert (drafter.spec.layers, drafter.weights_of) == (2, "verifier")
    assert drafter.parameters < verifier.parameters
    assert drafter.vocabulary == verifier.vocabulary
    with refuses(OptionError, "slice:3 of a verifier with 3 layers", "give fewer"):
        slice_of(verifier, 3)


def test_ignored_fields_are_passed_on(tmp_path: Path) -> None:
    config = decoder_config(odd_field=1)
    path = str(write_hf_checkpoint(tmp_path, config, tiny_weights(config)))
    with refuses(UnsupportedError, "odd_field"):
        open_model(path, ())
    assert open_model(path, ("odd_field",)).spec.layers == 2
