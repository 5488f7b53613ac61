"""Bad input to a compile: one line that names the file and the fix, the exit code, and nothing written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from specc.cli.app import run
from tests.support.checkpoints import tiny_tokenizer_json
from tests.support.tiny_models import EOS, TOKENS, TinyBundles, compiled, tiny_model

FAILED, USAGE = 1, 2


@pytest.fixture
def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run `specc compile MODEL -o OUT ...`, check its end and that nothing was written; what it says."""

    def call(model: Path | str, *arguments: object, code: int = FAILED, draft: object = "slice:1") -> str:
        output = tmp_path / "out" / "bundle"
        line = ["compile", model, "--draft", draft, "-o", output, "--context", "48", "--threads", "1", *arguments]
        assert run([str(word) for word in line]) == code
        said = capsys.readouterr().err.splitlines()
        assert [line for line in said if not line.endswith(" s")] == said[-1:]
        assert said[-1].startswith("specc: error: ")
        assert not output.parent.exists()
        return said[-1].removeprefix("specc: error: ")

    return call


def assert_says(line: str, *fragments: object) -> None:
    for fragment in fragments:
        assert str(fragment) in line, f"{str(fragment)!r} is not in {line!r}"


def changed_config(path: Path, **fields: Any) -> Path:
    """A tiny checkpoint whose config.json lies: `fields` are changed after the weights were written."""
    tiny_model(path)
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | fields))
    return path


def changed_weights(path: Path, change: Callable[[dict[str, Any]], None], **fields: Any) -> Path:
    tiny_model(path, **fields)
    weights = load_file(path / "model.safetensors")
    change(weights)
    save_file(weights, path / "model.safetensors")
    return path


def test_loops_where_there_are_none(tiny: TinyBundles, refused: Callable[..., str]) -> None:
    line = refused(tiny.model(), "--loop", code=USAGE)
    assert_says(line, "backend 'ort' has no programs that run whole generations; leave --loop out")


def test_options_of_xlas_compiler(tiny: TinyBundles, refused: Callable[..., str]) -> None:
    line = refused(tiny.model(), "--xla-option", "a=1", code=USAGE)
    assert_says(line, "backend 'ort' does not compile with XLA; leave --xla-option out")
    line = refused(tiny.model(), "--xla-option", "a", code=USAGE)
    assert_says(line, "xla-option: 'a' is no assignment; write NAME=VALUE")


def test_another_tokenizer(tiny: TinyBundles, tmp_path: Path, refused: Callable[..., str]) -> None:
    text = json.loads(tiny_tokenizer_json(TOKENS, [EOS]))
    vocab = text["model"]["vocab"]
    swapped = {vocab["c"]: "d", vocab["d"]: "c"}
    text["model"]["vocab"] = {swapped.get(i, token): i for token, i in vocab.items()}
    drafter = tiny_model(tmp_path / "drafter", tokenizer=json.dumps(text))
    line = refused(tiny.model(), draft=drafter)
    assert_says(line, drafter, "token id 2 is 'd' for the drafter and 'c' for the verifier", "share one tokenizer")


def test_drafter_with_fewer_rows(tiny: TinyBundles, tmp_path: Path, refused: Callable[..., str]) -> None:
    drafter = tiny_model(tmp_path / "drafter", vocab_size=260, tokenizer=tiny_tokenizer_json(260, [EOS]))
    line = refused(tiny.model(), draft=drafter)
    assert_says(line, drafter, "260 rows", f"ids up to {TOKENS - 1}", "share one tokenizer")


def test_tokenizer_with_more_ids_than_rows(tmp_path: Path, refused: Callable[..., str]) -> None:
    model = tiny_model(tmp_path / "m", vocab_size=TOKENS - 1)
    assert_says(refused(model), model, f"has id {TOKENS - 1}", f"only {TOKENS - 1} rows", "another checkpoint")


def test_drafter_without_tokenizer_and_of_another_size(
    tiny: TinyBundles, tmp_path: Path, refused: Callable[..., str]
) -> None:
    drafter = tiny_model(tmp_path / "d", tokenizer=None, vocab_size=310)
    assert_says(refused(tiny.model(), draft=drafter), drafter, "310 token ids", str(TOKENS), "add tokenizer.json")


@pytest.mark.parametrize("draft", ["slice:3", "slice:40"])
def test_slice_too_large(draft: str, tiny: TinyBundles, refused: Callable[..., str]) -> None:
    line = refused(tiny.model(), draft=draft, code=USAGE)
    assert_says(line, draft, "a verifier with 3 layers", "give fewer")


@pytest.mark.parametrize("gamma", ["0", "100", "2,0", "x"])
def test_gamma(gamma: str, tiny: TinyBundles, refused: Callable[..., str]) -> None:
    assert_says(refused(tiny.model(), "--gamma", gamma, code=USAGE), "gamma", "4" if gamma == "x" else "1 to 16")


def test_context_beyond_the_model(tiny: TinyBundles, refused: Callable[..., str]) -> None:
    line = refused(tiny.model(), "--context", 129)
    assert_says(line, tiny.model(), "context 129", "'max_position_embeddings'", "--context 128 or less")


def test_context_beyond_the_window(tmp_path: Path, refused: Callable[..., str]) -> None:
    model = tiny_model(tmp_path / "m", "mistral", sliding_window=32)
    assert_says(refused(model), model, "context 48", "'sliding_window'", "--context 32 or less")


def test_context_defaults_to_the_window(tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "m", "mistral", sliding_window=32)
    assert compiled(model, tmp_path / "b", context=None).manifest.context == 32


def test_untied_without_head(tmp_path: Path, refused: Callable[..., str]) -> None:
    model = changed_weights(tmp_path / "m", lambda weights: weights.pop("lm_head.weight"))
    assert_says(
        refused(model), model, "'lm_head.weight' is missing", "'tie_word_embeddings'", "complete the checkpoint"
    )


def test_tied_with_another_head(tmp_path: Path, refused: Callable[..., str]) -> None:
    model = changed_config(tmp_path / "m", tie_word_embeddings=True)
    line = refused(model)
    assert_says(line, model, "'tie_word_embeddings' is true", "'lm_head.weight' is not the embedding", "to false")


def test_tied_with_a_copy_of_the_embedding_is_fine(tmp_path: Path) -> None:
    def copy(weights: dict[str, Any]) -> None:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"].copy()

    compiled(changed_weights(tmp_path / "m", copy, tie_word_embeddings=True), tmp_path / "b")


def test_weight_missing(tmp_path: Path, refused: Callable[..., str]) -> None:
    name = "model.layers.1.mlp.up_proj.weight"
    model = changed_weights(tmp_path / "m", lambda weights: weights.pop(name))
    assert_says(refused(model), model, f"weight '{name}' is missing", "incomplete")


@pytest.mark.parametrize(
    ("name", "shape"),
    [("model.layers.2.self_attn.k_proj.weight", (16, 64)), ("model.norm.weight", (63,)), ("lm_head.weight", (300,))],
)
def test_weight_misshapen(name: str, shape: tuple[int, ...], tmp_path: Path, refused: Callable[..., str]) -> None:
    model = changed_weights(tmp_path / "m", lambda weights: weights.update({name: np.zeros(shape, np.float32)}))
    assert_says(refused(model), model, f"'{name}' has shape {list(shape)}", "config.json implies")


@pytest.mark.parametrize("shape", [(), (300,), (300, 32), (3, 10, 640)])
def test_embedding_misshapen(shape: tuple[int, ...], tmp_path: Path, refused: Callable[..., str]) -> None:
    name = "model.embed_tokens.weight"
    model = changed_weights(tmp_path / "m", lambda weights: weights.update({name: np.zeros(shape, np.float32)}))
    assert_says(refused(model), model, name, list(shape), [300, 64])


@pytest.mark.parametrize("precision", ["reference", "balanced", "int8"])
def test_weight_not_finite(precision: str, tmp_path: Path, refused: Callable[..., str]) -> None:
    def damage(weights: dict[str, Any]) -> None:
        weights["model.layers.1.mlp.up_proj.weight"][3, 4] = np.nan

    model = changed_weights(tmp_path / "m", damage)
    line = refused(model, "--precision", precision)
    assert_says(line, model, "model.layers.1.mlp.up_proj.weight", "not finite", "damaged")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_size", "64"),
        ("num_hidden_layers", 2.5),
        ("rms_norm_eps", "tiny"),
        ("rope_scaling", {"rope_type": "ntk"}),
    ],
)
def test_config_field(field: str, value: object, tmp_path: Path, refused: Callable[..., str]) -> None:
    model = changed_config(tmp_path / "m", **{field: value})
    assert_says(refused(model), model, "config.json field", "rope_type" if field == "rope_scaling" else field)


def test_unknown_config_field_unless_vouched_for(tmp_path: Path, refused: Callable[..., str]) -> None:
    model = changed_config(tmp_path / "m", attention_sinks=4)
    assert_says(refused(model), model, "'attention_sinks' is 4", "--ignore-config attention_sinks")
    compiled(model, tmp_path / "b", ignore_config=("attention_sinks",))


def test_head_size_the_engine_does_not_take(tmp_path: Path, refused: Callable[..., str]) -> None:
    assert_says(refused(tiny_model(tmp_path / "m", head_dim=10)), "ort: ", "multiples of 8", "is 10")


def test_unknown_target(tiny: TinyBundles, refused: Callable[..., str]) -> None:
    assert_says(refused(tiny.model(), "--target", "cpus"), "unknown target 'cpus'", "did you mean 'cpu'")


def test_target_whose_backend_is_not_there(tiny: TinyBundles, tmp_path: Path, refused: Callable[..., str]) -> None:
    target = tmp_path / "elsewhere.toml"
    target.write_text(
        'name = "elsewhere"\ntitle = "Elsewhere"\nvendor = "any"\nkind = "cpu"\narchitecture = "native"\n'
        'dtypes = ["fp32"]\nbackends = ["teleport"]\ndefault_backend = "teleport"\n'
    )
    assert_says(
        refused(tiny.model(), "--target", target), "target 'elsewhere' needs backend 'teleport'", "`specc targets`"
    )


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        ("1\ntwo\n3", "'two'"),
        ("", "at least 2 ids"),
        ("5", "at least 2 ids"),
        ("5\n300", "from 0 to 299"),
        ("-1\n5", "from 0 to 299"),
        (b"\xff\xfe\x00", "one token id a line"),
        (None, "nor a file"),
    ],
)
def test_draft_vocabulary_file(
    content: str | bytes | None, fragment: str, tiny: TinyBundles, tmp_path: Path, refused: Callable[..., str]
) -> None:
    file = tmp_path / "ids.txt"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert_says(refused(tiny.model(), "--draft-vocab", file, code=USAGE), "draft-vocab", file, fragment)


def test_draft_vocabulary_too_large(tiny: TinyBundles, refused: Callable[..., str]) -> None:
    line = refused(tiny.model(), "--draft-vocab", TOKENS + 1, code=USAGE)
    assert_says(line, f"{TOKENS + 1} tokens of a vocabulary of {TOKENS}")


@pytest.mark.parametrize("precision", ["reference", "int8"])
@pytest.mark.parametrize(("content", "fragment"), [(None, "No such file"), (b"\xff", "UTF-8"), (b" \n", "is empty")])
def test_calibration(
    content: bytes | None,
    fragment: str,
    precision: str,
    tiny: TinyBundles,
    tmp_path: Path,
    refused: Callable[..., str],
) -> None:
    """Refused before any checkpoint is opened, whether or not this compile needs it."""
    file = tmp_path / "text.txt"
    if content is not None:
        file.write_bytes(content)
    line = refused("no/such/model", "--precision", precision, "--calibration", file, code=USAGE)
    assert_says(line, "calibration", file, fragment)


def test_calibration_of_unknown_letters(tmp_path: Path, refused: Callable[..., str]) -> None:
    model, file = tiny_model(tmp_path / "m", vocab_size=8, tokenizer=tiny_tokenizer_json(8)), tmp_path / "text.txt"
    file.write_text("ZZZ 123")
    assert_says(refused(model, "--precision", "int8", "--calibration", file, code=USAGE), "calibration", "no token")


def test_kv_in_bf16(tiny: TinyBundles, refused: Callable[..., str]) -> None:
    assert_says(refused(tiny.model(), "--precision", "kv=bf16", code=USAGE), "kv=bf16", "'ort'", "known: fp16, fp32")


def test_fp16_that_overflows(tmp_path: Path, refused: Callable[..., str]) -> None:
    def enlarge(weights: dict[str, Any]) -> None:
        weights["model.layers.0.mlp.down_proj.weight"][0, 0] = 1e6

    model = changed_weights(tmp_path / "m", enlarge)
    line = refused(model, "--precision", "mlp=fp16", code=USAGE)
    assert_says(line, "verifier.layers.0.down", "fp16 ends at 65504", "bf16 or fp32")


def test_fused_ngram(tiny: TinyBundles, refused: Callable[..., str]) -> None:
    assert_says(refused(tiny.model(), "--fuse", draft="ngram", code=USAGE), "fuse", "n-gram", "leave --fuse out")


def test_model_that_is_not_there(refused: Callable[..., str]) -> None:
    assert_says(refused("no/such/folder/at/all"), "no/such/folder/at/all", "no such file")


@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_output_is_something_else(
    kind: str, force: list[str], tiny: TinyBundles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "mine"
    if kind == "folder":
        output.mkdir()
        (output / "a.txt").write_text("mine")
    else:
        output.write_text("mine")
    assert run(["compile", str(tiny.model()), "--draft", "ngram", "-o", str(output), *force]) == FAILED
    assert_says(capsys.readouterr().err, output, "exists and is no bundle", "choose another --output")
    assert (output if kind == "file" else output / "a.txt").read_text() == "mine"


def test_output_is_a_bundle(tiny: TinyBundles, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = tiny.bundle()
    before = (bundle / "manifest.json").read_bytes()
    assert run(["compile", str(tiny.model()), "--draft", "ngram", "-o", str(bundle)]) == FAILED
    assert_says(capsys.readouterr().err, bundle, "a bundle is there already", "--force")
    assert (bundle / "manifest.json").read_bytes() == before


def test_output_may_not_be_written(tiny: TinyBundles, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["compile", str(tiny.model()), "--draft", "ngram", "-o", "/proc/specc/b", "--context", "48"]
    assert run([*line, "--threads", "1"]) == FAILED
    assert_says(capsys.readouterr().err, "/proc/specc/b: can't be written", "choose another --output")


def test_output_in_the_working_folder(tiny: TinyBundles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-o .` and links mean the folder they lead to."""
    compiled(tiny.model(), tmp_path / "b", "ngram")
    (tmp_path / "link").symlink_to(tmp_path / "b")
    compiled(tiny.model(), tmp_path / "link", force=True)
    assert (tmp_path / "link").is_symlink()
    assert "drafter" in (tmp_path / "b" / "manifest.json").read_text()
    monkeypatch.chdir(tmp_path / "b")
    compiled(tiny.model(), Path("."), "ngram", force=True)
    assert "drafter.onnx" not in (tmp_path / "b" / "manifest.json").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "link"]
