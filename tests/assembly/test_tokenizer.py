import json
from pathlib import Path

from specc.assembly.sources import open_model
from specc.assembly.tokenizer import stage_tokenizer
from specc.bundle.staging import Staging
from specc_runtime.manifest import TokenizerInfo
from tests.support.tiny_models import TOKENS, tiny_model


def test_files_and_facts(tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "m", vocab_size=TOKENS + 20)
    (model / "chat_template.jinja").write_text("{{ messages }}")
    info = stage_tokenizer(open_model(str(model), ()), Staging(tmp_path / "b"))
    assert info == TokenizerInfo(
        "tokenizer.json", token_count=TOKENS, eos_ids=(TOKENS - 1,), chat_template="{{ messages }}"
    )
    assert json.loads((tmp_path / "b" / "tokenizer.json").read_text())["model"]["type"] == "BPE"


def test_none(tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "m", tokenizer=None)
    assert stage_tokenizer(open_model(str(model), ()), Staging(tmp_path / "b")) is None
    assert not (tmp_path / "b").exists()
