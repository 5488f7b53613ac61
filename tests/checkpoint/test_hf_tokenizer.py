import json

import numpy as np
import pytest
from tokenizers import Tokenizer, processors

from specc.checkpoint import open_checkpoint
from specc.errors import CheckpointError
from tests.support.checkpoints import tiny_tokenizer_json, write_hf_checkpoint
from tests.support.refusals import refuses

BOS, EOS, TURN = 297, 298, 299  # of the tokenizer below
TOKENIZER = tiny_tokenizer_json(300, ("<s>", "</s>", "<turn>"))
WEIGHTS = {"model.norm.weight": np.ones(1, np.float32)}


def open_with(path, tokenizer_json=TOKENIZER, config=None, **files):
    write_hf_checkpoint(path, config or {}, WEIGHTS, tokenizer_json, **files)
    return open_checkpoint(str(path)).tokenizer


def with_template(single):
    tokenizer = Tokenizer.from_str(TOKENIZER)
    special = [("<s>", BOS), ("</s>", EOS)]
    tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=special)
    return tokenizer.to_str()


def prefix(tokenizer):
    """What encoding adds to a text."""
    return Tokenizer.from_str(tokenizer.json).encode("").ids


def test_tokenizer_text_is_kept_as_it_is(tmp_path):
    assert open_with(tmp_path).json == TOKENIZER


@pytest.mark.parametrize(
    ("generation_config", "config", "eos_ids"),
    [
        ({"eos_token_id": [TURN, EOS, TURN]}, {"eos_token_id": 5}, (TURN, EOS)),
        ({"eos_token_id": 0}, {"eos_token_id": 5}, (0,)),
        ({"eos_token_id": None}, {"eos_token_id": [5, 6]}, (5, 6)),
        (None, {"eos_token_id": 5}, (5,)),
        (None, {"eos_token_id": -1}, (EOS,)),
        (None, {}, (EOS,)),
    ],
)
def test_end_ids_come_from_generation_config_then_config_then_the_tokenizer(
    tmp_path, generation_config, config, eos_ids
):
    names = {"eos_token": "</s>"}
    tokenizer = open_with(tmp_path, config=config, generation_config=generation_config, tokenizer_config=names)
    assert tokenizer.eos_ids == eos_ids


def test_named_tokens_may_be_objects_and_win_over_ids(tmp_path):
    names = {"bos_token": {"content": "<s>", "lstrip": False}, "pad_token": "</s>"}
    tokenizer = open_with(tmp_path, config={"bos_token_id": 5, "pad_token_id": 6}, tokenizer_config=names)
    assert (tokenizer.bos_id, tokenizer.pad_id) == (BOS, EOS)


def test_id_zero_is_an_id(tmp_path):
    tokenizer = open_with(tmp_path, config={"bos_token_id": 0, "pad_token_id": 0}, tokenizer_config={"bos_token": "a"})
    assert (tokenizer.bos_id, tokenizer.pad_id) == (0, 0)


def test_special_tokens_map_stands_in_for_tokenizer_config(tmp_path):
    tmp_path.joinpath("special_tokens_map.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
    tokenizer = open_with(tmp_path)
    assert (tokenizer.bos_id, tokenizer.eos_ids, tokenizer.pad_id) == (BOS, (EOS,), None)


@pytest.mark.parametrize(
    ("single", "stated", "expected"),
    [
        ("<s> $A", None, [BOS]),
        ("$A", None, []),
        ("$A", True, [BOS]),
        ("<s> $A", False, []),
        ("<s> $A </s>", None, [BOS]),
        ("<s> $A </s>", True, [BOS]),
        ("$A </s>", None, []),
    ],
)
def test_add_bos_and_the_tokenizer_agree_and_no_prompt_is_ended(tmp_path, single, stated, expected):
    names = {"bos_token": "<s>"} | ({} if stated is None else {"add_bos_token": stated})
    tokenizer = open_with(tmp_path, with_template(single), tokenizer_config=names)
    assert prefix(tokenizer) == expected
    assert tokenizer.add_bos == bool(expected)
    assert Tokenizer.from_str(tokenizer.json).encode("ab").ids == [
        *expected,
        *Tokenizer.from_str(TOKENIZER).encode("ab").ids,
    ]


def test_add_bos_without_a_bos_token_adds_none(tmp_path):
    tokenizer = open_with(tmp_path, tokenizer_config={"add_bos_token": True, "bos_token": None})
    assert (tokenizer.add_bos, prefix(tokenizer)) == (False, [])


@pytest.mark.parametrize(
    ("names", "jinja", "template"),
    [
        ({"chat_template": "inline"}, "file", "file"),
        ({"chat_template": "inline"}, None, "inline"),
        ({"chat_template": [{"name": "rag", "template": "r"}, {"name": "default", "template": "d"}]}, None, "d"),
        ({"chat_template": [{"name": "rag", "template": "r"}]}, None, None),
        ({}, None, None),
    ],
)
def test_chat_template(tmp_path, names, jinja, template):
    assert open_with(tmp_path, tokenizer_config=names, chat_template=jinja).chat_template == template


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", TOKENIZER[:-1], TOKENIZER.replace('"ab"', '"zz"', 1)])
def test_broken_tokenizer(tmp_path, text):
    with refuses(CheckpointError, tmp_path / "tokenizer.json", "not a tokenizer", "download or export it again"):
        open_with(tmp_path, text)


def test_older_tokenizer_forms_are_refused_with_the_way_to_tokenizer_json(tmp_path):
    (tmp_path / "tokenizer.model").write_bytes(b"x")
    with refuses(CheckpointError, tmp_path / "tokenizer.json", "only tokenizer.model", "AutoTokenizer"):
        open_with(tmp_path, None)


@pytest.mark.parametrize(
    ("files", "name", "found"),
    [
        ({"generation_config": {"eos_token_id": "2"}}, "generation_config.json", "eos_token_id is '2'"),
        ({"generation_config": {"eos_token_id": [2, True]}}, "generation_config.json", "eos_token_id is [2, True]"),
        ({"config": {"bos_token_id": 1.0}}, "config.json", "bos_token_id is 1.0"),
        ({"config": {"pad_token_id": -7}}, "config.json", "pad_token_id is -7"),
        ({"tokenizer_config": {"eos_token": "<none>"}}, "tokenizer_config.json", "'<none>' has no id"),
        ({"tokenizer_config": {"bos_token": {"content": 3}}}, "tokenizer_config.json", "bos_token 3 has no id"),
        ({"tokenizer_config": {"add_bos_token": "yes"}}, "tokenizer_config.json", "add_bos_token is 'yes'"),
        ({"tokenizer_config": {"chat_template": 5}}, "tokenizer_config.json", "chat_template is of type int"),
        (
            {"tokenizer_config": {"add_bos_token": True}, "config": {"bos_token_id": 999}},
            "config.json",
            "999 has no token",
        ),
    ],
)
def test_settings_of_the_wrong_type(tmp_path, files, name, found):
    with refuses(CheckpointError, tmp_path / name, found):
        open_with(tmp_path, **files)


@pytest.mark.parametrize("name", ["tokenizer_config.json", "special_tokens_map.json", "generation_config.json"])
def test_settings_that_are_no_json(tmp_path, name):
    (tmp_path / name).write_text("{")
    with refuses(CheckpointError, tmp_path / name, "not JSON", "download"):
        open_with(tmp_path)
