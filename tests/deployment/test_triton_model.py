"""The Python backend's model.py, loaded as Triton loads it and fed through stand-ins of its request classes."""

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from specc.deployment.emitting import emit
from specc.deployment.records import Asked
from specc_runtime import Engine, SamplingParams
from tests.deployment.pbtxt import parsed_config
from tests.support.triton_backend import Request, TritonModelException, backend_module

PROMPT = "hello"


@pytest.fixture(scope="module")
def repository(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return emit("triton", bundle, tmp_path_factory.mktemp("emitted") / "triton", Asked(name="tiny")).output


@pytest.fixture(scope="module")
def backend() -> ModuleType:
    return backend_module()


def load_model(repository: Path, backend: ModuleType, **changed: str) -> Any:
    """An initialized model, as the server makes one. changed: settings that differ from config.pbtxt's."""
    config = parsed_config(repository / "tiny" / "config.pbtxt")
    parameters = {name: {"string_value": value.string_value} for name, value in config.parameters.items()}
    parameters |= {name: {"string_value": value} for name, value in changed.items()}
    spec = importlib.util.spec_from_file_location("model", repository / "tiny" / "1" / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["triton_python_backend_utils"] = backend
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules["triton_python_backend_utils"]
    model = module.TritonPythonModel()
    model.initialize({"model_config": json.dumps({"parameters": parameters})})
    return model


@pytest.fixture(scope="module")
def ask(repository: Path, backend: ModuleType) -> Callable[..., Request]:
    """Send one request to the model and return it with its responses."""
    model = load_model(repository, backend)

    def call(**request: Any) -> Request:
        sent = Request(**request)
        assert model.execute([sent]) is None, "a decoupled model returns nothing"
        return sent

    return call


@pytest.fixture(scope="module")
def engine(bundle: Path) -> Engine:
    return Engine.load(bundle)


def ids_of(request: Request) -> list[int]:
    return [token for output in request.outputs for token in output.get("output_ids", [])]


def text_of(request: Request) -> str:
    return "".join(output["text_output"] for output in request.outputs)


def test_text_in_text_and_ids_out_round_by_round(ask: Callable[..., Request], engine: Engine) -> None:
    expected = engine.generate(PROMPT, SamplingParams(max_new_tokens=20)).finish()
    request = ask(text_input=PROMPT, parameters={"max_new_tokens": 20})
    assert ids_of(request) == expected.ids
    assert text_of(request) == expected.text
    *rounds, last = request.outputs
    assert 2 < len(rounds) <= expected.stats.rounds < 20, "a round's tokens come in one response, held back ones later"
    assert max(len(output["output_ids"]) for output in rounds) > 1
    assert request.sender.closed
    summary = json.loads(last["summary"])
    assert summary["finish_reason"] == expected.finish_reason
    assert summary["prompt_tokens"] == expected.prompt_tokens
    assert summary["stats"]["spec_decode_num_drafts"] == expected.stats.spec_decode_num_drafts > 0
    assert all("summary" not in output for output in rounds)


def test_ids_in(ask: Callable[..., Request], engine: Engine) -> None:
    request = ask(input_ids=engine.codec.encode(PROMPT), parameters={"max_new_tokens": 8})
    assert ids_of(request) == engine.generate(PROMPT, SamplingParams(max_new_tokens=8)).finish().ids


@pytest.mark.parametrize(
    ("parameters", "options"),
    [
        ({"temperature": 0.9, "top_k": 40, "top_p": 0.9, "min_p": 0.01, "seed": 5}, {}),
        ({"temperature": "0.9", "seed": "5"}, {"temperature": 0.9, "seed": 5}),
        ({"do_sample": False, "temperature": 0.7}, {}),
        ({"repetition_penalty": 1.3, "frequency_penalty": 0.5, "presence_penalty": 0.5}, {}),
        ({"logit_bias": '{"7": 100}', "min_new_tokens": 3}, {"logit_bias": {7: 100}, "min_new_tokens": 3}),
        ({"allowed_token_ids": "[3, 5]"}, {"allowed_token_ids": [3, 5]}),
        ({"forbidden_token_ids": "[3, 5]"}, {"forbidden_token_ids": [3, 5]}),
        ({"ignore_eos": True, "acceptance": "token", "temperature": 1, "seed": 1}, {}),
        ({"verify_every": 6}, {}),
    ],
)
def test_options_arrive(
    ask: Callable[..., Request], engine: Engine, parameters: dict[str, Any], options: dict[str, Any]
) -> None:
    request = ask(text_input=PROMPT, parameters={"max_new_tokens": 10, **parameters})
    params = SamplingParams(max_new_tokens=10, **(options or parameters))
    assert ids_of(request) == engine.generate(PROMPT, params).finish().ids


def test_ways_of_drafting_arrive(ask: Callable[..., Request], engine: Engine) -> None:
    expected = engine.generate(PROMPT, SamplingParams(max_new_tokens=10)).finish().ids
    (drafter,) = engine.manifest.drafters
    drafted = []
    for way in (
        {"plain": True},
        {"gamma": 2},
        {"gamma": "2", "drafter": drafter},
        {"gamma": "auto", "drafter": "ngram"},
    ):
        request = ask(text_input=PROMPT, parameters={"max_new_tokens": 10, **way})
        assert ids_of(request) == expected
        drafted.append(json.loads(request.outputs[-1]["summary"])["stats"]["spec_decode_num_draft_tokens"])
    assert drafted[0] == 0 < drafted[1] == drafted[2]


@pytest.mark.parametrize("as_list", [True, False])
def test_stop_strings_cut_text_and_ids(ask: Callable[..., Request], engine: Engine, as_list: bool) -> None:
    text = engine.generate(PROMPT, SamplingParams(max_new_tokens=20)).finish().text
    stop = text[6:8]
    request = ask(
        text_input=PROMPT, parameters={"max_new_tokens": 20, "stop_strings": json.dumps([stop]) if as_list else stop}
    )
    assert text_of(request) == text[: text.index(stop)]
    assert json.loads(request.outputs[-1]["summary"])["finish_reason"] == "stop"


def test_several_texts_of_one_request(ask: Callable[..., Request], engine: Engine) -> None:
    sampled = {"max_new_tokens": 8, "temperature": 1.0, "seed": 3, "n": 2}
    request = ask(text_input=PROMPT, parameters={**sampled, "logprobs": 1})
    samples = engine.generate_samples(PROMPT, SamplingParams(**sampled))
    for number, expected in enumerate(samples):
        expected.finish()
        of_sample = [output for output in request.outputs if output["sample"] == [number]]
        assert [token for output in of_sample for token in output.get("output_ids", [])] == expected.ids
        assert "".join(output["text_output"] for output in of_sample) == expected.text
        summary = json.loads(of_sample[-1]["summary"])
        assert [entry["token"] for entry in summary["logprobs"]] == expected.ids
    assert request.sender.closed


def test_a_cancelled_request_ends_and_frees_the_engine(ask: Callable[..., Request]) -> None:
    request = ask(text_input=PROMPT, parameters={"max_new_tokens": 40}, cancelled=lambda sent: sent == 2)
    assert len(request.sender.responses) == 3
    assert request.error.code() == "CANCELLED"
    assert ask(text_input=PROMPT, parameters={"max_new_tokens": 2}).outputs[-1]["summary"]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"text_input": PROMPT, "parameters": {"temprature": 1}}, "unknown parameter 'temprature'; known: acceptance,"),
        ({"text_input": PROMPT, "parameters": {"logits_processor": "f"}}, "unknown parameter 'logits_processor'"),
        ({"text_input": PROMPT, "parameters": {"temperature": -1}}, "temperature is -1"),
        ({"text_input": PROMPT, "parameters": {"max_new_tokens": "many"}}, "max_new_tokens is 'many'"),
        ({"text_input": PROMPT, "parameters": {"logit_bias": '{"x": 1}'}}, "logit_bias is 'x'"),
        ({"text_input": PROMPT, "parameters": {"gamma": 99}}, "gamma is 99"),
        ({"text_input": PROMPT, "parameters": {"drafter": "drft"}}, "drafter 'drft'"),
        ({"text_input": b"\xff"}, "no UTF-8 text"),
        ({"text_input": ""}, "the prompt is empty"),
        ({"input_ids": [10**6]}, "holds ids"),
        ({"input_ids": [1] * 100}, "the bundle's context is 48"),
        ({"text_input": PROMPT, "input_ids": [1]}, "one prompt"),
        ({}, "one prompt"),
    ],
)
def test_what_can_not_be_served_is_an_invalid_argument(
    ask: Callable[..., Request], request_: dict[str, Any], message: str
) -> None:
    request = ask(**request_)
    assert request.error.code() == "INVALID_ARG"
    assert message in request.error.message()
    assert len(request.sender.responses) == 1


def test_tritons_own_parameters_are_left_to_it(ask: Callable[..., Request]) -> None:
    request = ask(text_input=PROMPT, parameters={"max_new_tokens": 2, "triton_enable_empty_final_response": True})
    assert len(ids_of(request)) == 2


def test_one_failure_does_not_reach_the_next_request(repository: Path, backend: ModuleType) -> None:
    model = load_model(repository, backend)
    bad, good = Request(input_ids=[]), Request(text_input=PROMPT, parameters={"max_new_tokens": 3})
    model.execute([bad, good])
    assert bad.error.code() == "INVALID_ARG"
    assert len(ids_of(good)) == 3


def test_what_nobody_expected_is_logged(repository: Path, backend: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(repository, backend)

    def failing(*_arguments: object, **_options: object) -> None:
        raise RuntimeError("engine")

    monkeypatch.setattr(model._engine, "generate_samples", failing)
    request = Request(text_input=PROMPT)
    model.execute([request])
    assert (request.error.code(), request.error.message()) == ("INTERNAL", "RuntimeError: engine")
    assert vars(backend)["logged"] == ["unexpected RuntimeError: engine"]


def test_a_bundle_that_is_not_there_keeps_the_model_from_loading(repository: Path, backend: ModuleType) -> None:
    with pytest.raises(TritonModelException, match="not a bundle folder"):
        load_model(repository, backend, bundle="elsewhere")


def test_engine_settings_arrive(repository: Path, backend: ModuleType) -> None:
    load_model(repository, backend, threads="1")
    with pytest.raises(TritonModelException, match="no usable round programs"):
        load_model(repository, backend, fused="true")
