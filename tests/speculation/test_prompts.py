from dataclasses import replace
from pathlib import Path

from specc.resources import read_data
from specc.speculation.prompts import FILE, LONGEST, PASSAGES, calibration_prompts
from specc_runtime.bundle import Bundle
from specc_runtime.manifest import TokenizerInfo
from specc_runtime.text import TextCodec
from tests.support.checkpoints import tiny_tokenizer_json
from tests.support.manifests import small_manifest

TOKENS = 258
TEMPLATE = "{% for m in messages %}[{{ m.role }}: {{ m.content }}]{% endfor %}"


def bundle(folder: Path, template: str | None = None, context: int = 2048) -> Bundle:
    (folder / "tokenizer.json").write_text(tiny_tokenizer_json(TOKENS, ["<s>", "</s>"]))
    info = TokenizerInfo("tokenizer.json", TOKENS, bos_id=256, eos_ids=(257,), chat_template=template)
    manifest = small_manifest()
    verifier = replace(manifest.verifier, vocab_rows=TOKENS)
    return Bundle(folder, replace(manifest, tokenizer=info, verifier=verifier, context=context))


def texts(opened: Bundle, own_text: str | None = None) -> list[str]:
    info = opened.manifest.tokenizer
    assert info is not None
    codec = TextCodec(opened.path(info.file), info)
    return [codec.decode(prompt) for prompt in calibration_prompts(opened, own_text)]


def test_shipped_prompts_become_chat_turns_where_there_is_a_format(tmp_path: Path) -> None:
    lines = read_data("calibration", FILE).splitlines()
    assert texts(bundle(tmp_path))[0] == lines[0]
    assert texts(bundle(tmp_path, TEMPLATE))[0] == f"[user: {lines[0]}]"


def test_a_users_text_comes_in_passages(tmp_path: Path) -> None:
    own = "the quick brown fox " * 20
    passages = texts(bundle(tmp_path, TEMPLATE), own)
    assert len(passages) == PASSAGES
    assert "".join(passages) == own


def test_prompts_leave_half_of_a_short_context(tmp_path: Path) -> None:
    assert max(map(len, calibration_prompts(bundle(tmp_path, context=40), None))) == 20
    assert max(map(len, calibration_prompts(bundle(tmp_path), None))) <= LONGEST


def test_without_a_tokenizer_ids_are_made_up() -> None:
    prompts = calibration_prompts(Bundle(Path(), replace(small_manifest(), tokenizer=None)), None)
    assert len(prompts) == PASSAGES
    assert {tuple(prompt) for prompt in prompts} == {
        tuple(prompt) for prompt in calibration_prompts(Bundle(Path(), replace(small_manifest(), tokenizer=None)), "x")
    }
