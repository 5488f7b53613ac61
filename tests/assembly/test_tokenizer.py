import json
from dataclasses import replace
from pathlib import Path

from specc.assembly.sources import open_model
from specc.assembly.tokenizer import stage_tokenizer
from specc.bundle.staging import Staging
from specc.errors import VocabularyError
from specc_runtime.manifest import TokenizerInfo
from tests.support.checkpoints import tiny_tokenizer_json
from tests.support.refusals import refuses
from tests.support.tiny_models import TOKENS, tiny_model


def test_files_and_facts(tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "m", vocab_size=TOKENS + 20)
    (model / "chat_template.jinja").write_text("{{ messages }}")
    info = stage_tokenizer(open_model(str(model), ()), Staging(tmp_path / "b"))
    assert info == TokenizerInfo(
        "tokenizer.json", token_count=TOKENS, eos_ids=(TOKENS - 1,), chat_template="{{ messages }}"
    )
    assert json.loads((tmp_path / "b" / "tokenizer.json").read_text())["model"]["type"] == "BPE"


def test_ids_without_a_row_are_left_out(tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "m", vocab_size=280, tokenizer=tiny_tokenizer_json(280), pad_token_id=-1)
    (model / "generation_config.json").write_text(json.dumps({"eos_token_id": [4, 299]}))
    info = stage_tokenizer(open_model(str(model), ()), Staging(tmp_path / "b"))
    assert info is not None
    assert (info.bos_id, info.eos_ids, info.pad_id) == (None, (4,), None)


def test_prompts_that_would_start_with_no_row(tmp_path: Path) -> None:
    source = open_model(str(tiny_model(tmp_path / "m")), ())
    assert source.checkpoint.tokenizer is not None
    tokenizer = replace(source.checkpoint.tokenizer, bos_id=300, add_bos=True)
    source = replace(source, checkpoint=replace(source.checkpoint, tokenizer=tokenizer))
    with refuses(VocabularyError, tmp_path, "start with id 300", "300 rows", "bos_token_id"):
        stage_tokenizer(source, Staging(tmp_path / "b"))


def test_none(tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "m", tokenizer=None)
    assert stage_tokenizer(open_model(str(model), ()), Staging(tmp_path / "b")) is None
    assert not (tmp_path / "b").exists()
