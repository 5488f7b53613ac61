"""The xla engine on bundles that the compiler made."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

from specc.check import rounds
from specc.check.subject import Subject
from specc.progress import Silent
from specc_runtime import Engine, SamplingParams
from specc_runtime.bundle import Bundle, open_bundle
from specc_runtime.engines import load_programs
from specc_runtime.engines.base import LoopRequest, Programs
from specc_runtime.engines.fixed_widths import FixedWidthPrograms, Steps
from specc_runtime.engines.looping import LoopCall
from specc_runtime.engines.xla_call import Buffers, ProgramCall
from specc_runtime.engines.xla_stablehlo import compiled_stablehlo
from specc_runtime.errors import EngineError, IntegrityError
from specc_runtime.manifest import VERIFIER, Executable, Program
from tests.support.refusals import refuses
from tests.support.tiny_models import TOKENS, compiled, tiny_model

CONTEXT, GAMMAS = 48, (1, 3)
TEXT = np.random.default_rng(3).integers(0, TOKENS, CONTEXT)


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bundle]:
    """One model and drafter, compiled for both engines."""
    root = tmp_path_factory.mktemp("xla-engine")
    model = tiny_model(root / "model")
    for backend in ("ort", "xla"):
        compiled(
            model,
            root / backend,
            "slice:2",
            gammas=GAMMAS,
            fuse=True,
            loop=backend == "xla",
            context=CONTEXT,
            backend=backend,
        )
    return {backend: open_bundle(root / backend) for backend in ("ort", "xla")}


@pytest.fixture(scope="module")
def programs(bundles: dict[str, Bundle]) -> FixedWidthPrograms:
    loaded = load_programs(bundles["xla"], fused=True)
    assert isinstance(loaded, FixedWidthPrograms)
    return loaded


@pytest.fixture(scope="module")
def expected(bundles: dict[str, Bundle]) -> NDArray[np.float32]:
    """ONNX Runtime's logits after each token of TEXT."""
    return load_programs(bundles["ort"]).verify(TEXT, 0, len(TEXT)).copy()


@pytest.mark.parametrize(
    "widths",
    [[48], [32, 16], [1, 2, 3, 4, 5, 6, 7, 8, 12], [40, 8], [5] * 9 + [3]],
    ids=lambda w: "+".join(map(str, w)),
)
@pytest.mark.parametrize("every_row", [False, True])
def test_any_widths_give_the_same_logits(
    programs: FixedWidthPrograms, expected: NDArray[np.float32], widths: Sequence[int], every_row: bool
) -> None:
    """The last of them end at the cache's end, where wide programs do not fit."""
    start = 0
    for width in widths:
        rows = width if every_row else 1
        found = programs.verify(TEXT[start : start + width], start, rows)
        start += width
        assert found.shape == (rows, TOKENS)
        np.testing.assert_allclose(found, expected[start - rows : start], rtol=0, atol=1e-4)


def test_steps_without_logits(programs: FixedWidthPrograms, expected: NDArray[np.float32]) -> None:
    programs.verify(TEXT[:30], 0, 0)
    np.testing.assert_allclose(programs.verify(TEXT[30:32], 30, 2), expected[30:32], rtol=0, atol=1e-4)


@pytest.mark.parametrize("rows", [-1, 3])
def test_rows_that_were_not_fed_are_refused(programs: FixedWidthPrograms, rows: int) -> None:
    with refuses(EngineError, f"{rows} rows of logits of 2 tokens"):
        programs.verify(TEXT[:2], 0, rows)


def test_rows_beyond_the_cache_are_refused(programs: FixedWidthPrograms) -> None:
    with refuses(EngineError, "no program takes 1 tokens at row 1000"):
        programs.verify(TEXT[:1], 1000, 1)


def test_drafts_are_those_of_the_other_engine(bundles: dict[str, Bundle], programs: FixedWidthPrograms) -> None:
    other = load_programs(bundles["ort"])
    for engine in (other, programs):
        engine.catchup("drafter", TEXT[:7], 0)
    for fed in (2, 1, 9):
        found, wanted = (engine.draft("drafter", TEXT[7 : 7 + fed], 7).copy() for engine in (programs, other))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)


def test_logits_may_be_written(programs: FixedWidthPrograms) -> None:
    logits = programs.verify(TEXT[:2], 0, 2)
    logits[:] = 0
    assert np.abs(programs.verify(TEXT[:2], 0, 2)).max() > 0


def test_reset_zeroes_the_caches(programs: FixedWidthPrograms) -> None:
    programs.verify(TEXT, 0, 0)
    programs.reset()
    alone = programs.verify(TEXT[:1], 20, 1).copy()
    programs.verify(TEXT, 0, 0)
    assert np.abs(programs.verify(TEXT[:1], 20, 1) - alone).max() > 1e-3


def test_caches_stay_where_they_are(programs: FixedWidthPrograms) -> None:
    programs.verify(TEXT[:1], 0, 1)
    before = pointers(programs)
    programs.verify(TEXT[1:5], 1, 4)
    programs.draft("drafter", TEXT[:2], 0)
    assert pointers(programs) == before


def pointers(programs: FixedWidthPrograms) -> list[int]:
    buffers = programs.reset.__self__  # type: ignore[attr-defined]  # a method, typed as any callable
    assert isinstance(buffers, Buffers)
    return [array.unsafe_buffer_pointer() for array in buffers._arrays.values() if array is not None]


def call_of(programs: Programs, width: int) -> ProgramCall:
    """The verifier's program of one width."""
    assert isinstance(programs, FixedWidthPrograms)
    steps = programs._steps[VERIFIER]
    assert isinstance(steps, Steps)
    call = next(call for call in steps._calls if call.program.max_width == width)
    assert isinstance(call, ProgramCall)
    return call


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("gamma", GAMMAS)
def test_texts_are_those_of_the_other_engine(
    bundles: dict[str, Bundle], programs: FixedWidthPrograms, fused: bool, gamma: int
) -> None:
    other = load_programs(bundles["ort"], fused=fused)
    engines = [Engine(bundles["ort"], other), Subject(bundles["xla"], programs).engine(fused=fused)]
    for params in (
        SamplingParams(max_new_tokens=40, ignore_eos=True),
        SamplingParams(max_new_tokens=40, temperature=0.8, top_k=20, top_p=0.9, min_p=0.01, seed=5, ignore_eos=True),
    ):
        wanted, found = (engine.generate(TEXT[:3], params, gamma=gamma) for engine in engines)
        assert list(found) == list(wanted)
        assert found.stats.acceptance_rate == wanted.stats.acceptance_rate > 0


REQUESTS = (
    SamplingParams(max_new_tokens=30, ignore_eos=True),
    SamplingParams(max_new_tokens=60, temperature=0.8, top_k=20, top_p=0.9, min_p=0.01, seed=5, ignore_eos=True),
    *(SamplingParams(max_new_tokens=9 + seed, temperature=1.0, seed=2**40 + seed) for seed in range(8)),
    *(SamplingParams(max_new_tokens=25, temperature=1.2, seed=s, stop_token_ids=range(0, 300, 7)) for s in range(4)),
)


@pytest.fixture(scope="module")
def engine(bundles: dict[str, Bundle], programs: FixedWidthPrograms) -> Engine:
    return Engine(bundles["xla"], programs)


@pytest.mark.parametrize("params", REQUESTS, ids=lambda p: f"T={p.temperature}, seed {p.seed}")
def test_a_loop_gives_the_tokens_of_rounds(engine: Engine, params: SamplingParams) -> None:
    """To the token, to the last one, and with the same rounds: the second text ends at the context's end."""
    by_rounds, looped = (engine.generate(TEXT[:4], params, gamma=3) for _ in range(2))
    assert list(by_rounds) == looped.finish().ids
    assert looped.finish_reason == by_rounds.finish_reason
    for name in ("rounds", "emitted_tokens", "spec_decode_num_draft_tokens", "spec_decode_num_accepted_tokens_per_pos"):
        assert getattr(looped.stats, name) == getattr(by_rounds.stats, name), name


def test_a_loop_goes_on_from_rounds_and_others_from_it(engine: Engine) -> None:
    params = SamplingParams(max_new_tokens=20, temperature=1.0, seed=3, ignore_eos=True)
    whole = list(engine.generate(TEXT[:4], params, gamma=3))
    begun = engine.generate(TEXT[:4], params, gamma=3)
    head = [next(begun) for _ in range(7)]
    assert begun.finish().ids == whole
    assert head == whole[:7]
    longer = SamplingParams(max_new_tokens=10, ignore_eos=True)
    for way in ({"gamma": 3}, {"plain": True}, {"gamma": 1}):
        prompt = [*TEXT[:4].tolist(), *whole]
        after = engine.generate(prompt, longer, **way).finish()
        engine.forget()
        assert list(engine.generate(prompt, longer, plain=True)) == after.ids
        assert engine.generate(TEXT[:4], params, gamma=3).finish().ids == whole


@pytest.mark.parametrize(
    ("params", "way", "loops"),
    [
        (SamplingParams(max_new_tokens=6), {"gamma": 3}, 1),
        (SamplingParams(max_new_tokens=6), {"gamma": 2}, 0),
        (SamplingParams(max_new_tokens=6), {"gamma": "auto"}, 0),
        (SamplingParams(max_new_tokens=6), {"plain": True}, 0),
        (SamplingParams(max_new_tokens=6), {"gamma": 3, "drafter": "ngram"}, 0),
        (SamplingParams(max_new_tokens=6), {"gamma": 3, "streamer": str}, 0),
        (SamplingParams(max_new_tokens=6, repetition_penalty=1.1), {"gamma": 3}, 0),
        (SamplingParams(max_new_tokens=6, stop_strings="zebra"), {"gamma": 3}, 0),
        (SamplingParams(max_new_tokens=6, logprobs=1), {"gamma": 3}, 0),
        (SamplingParams(max_new_tokens=6, verify_every=4), {"gamma": 3}, 0),
        (SamplingParams(max_new_tokens=1), {"gamma": 3}, 0),
    ],
    ids=str,
)
def test_what_a_loop_serves(
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    params: SamplingParams,
    way: dict[str, Any],
    loops: int,
) -> None:
    calls: list[LoopRequest] = []

    def counted(loop: LoopCall, request: LoopRequest) -> list[list[int]]:
        calls.append(request)
        return called(loop, request)

    called = LoopCall.__call__
    monkeypatch.setattr(LoopCall, "__call__", counted)
    assert len(engine.generate(TEXT[:4], params, **way).finish().ids) <= 6
    assert len(calls) == loops


def test_a_loop_writes_caches_where_they_are(programs: FixedWidthPrograms, engine: Engine) -> None:
    before = pointers(programs)
    engine.generate(TEXT[:4], SamplingParams(max_new_tokens=12), gamma=3).finish()
    assert pointers(programs) == before
    (loop,) = (loop for loop in programs.loops if loop.program.width == 4)
    assert isinstance(loop, LoopCall)
    assert isinstance(loop._call, ProgramCall)
    sizes = loop._call._compiled.memory_analysis()
    assert sizes.alias_size_in_bytes == sum(4 * int(np.prod(state.shape)) for state in loop.program.state)


def test_check_compares_loops_with_the_host(
    bundles: dict[str, Bundle], programs: FixedWidthPrograms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "SEEDS", 2)
    monkeypatch.setattr(programs, "loops", programs.loops[-1:])
    rows = list(rounds.check_rounds(Subject(bundles["xla"], programs), Silent()))
    assert [row.name for row in rows][-1] == "rounds of drafter looped, gamma 3"
    assert {(row.passed, row.detail[:6]) for row in rows} == {(True, "4 of 4")}


def edited(bundle: Bundle, change: dict[str, object], kind: str = "verify") -> Bundle:
    programs = tuple(replace(p, **change) if p.kind == kind else p for p in bundle.manifest.programs)
    return Bundle(bundle.root, replace(bundle.manifest, programs=programs))


def first(bundle: Bundle, kind: str = "verify") -> Program:
    return next(p for p in bundle.manifest.programs if p.kind == kind)


@pytest.mark.parametrize(
    ("version", "platform"), [("PJRT C API\nrocm 70000", "rocm"), ("PJRT C API\ncuda 13000", "cuda")]
)
def test_a_gpu_is_of_one_vendor_or_the_other(
    bundles: dict[str, Bundle], monkeypatch: pytest.MonkeyPatch, version: str, platform: str
) -> None:
    device = SimpleNamespace(client=SimpleNamespace(platform_version=version))
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "devices", lambda: [device])
    with refuses(EngineError, "compiled for target 'cpu'", f"finds '{platform}' here"):
        load_programs(bundles["xla"])


def test_another_platform_is_refused(bundles: dict[str, Bundle]) -> None:
    programs = tuple(replace(p, requires=("jax>=0.10", "platform=tpu")) for p in bundles["xla"].manifest.programs)
    other = Bundle(bundles["xla"].root, replace(bundles["xla"].manifest, programs=programs, target="tpu-v5e"))
    with refuses(EngineError, "compiled for target 'tpu-v5e'", "finds 'cpu' here"):
        load_programs(other)


def test_a_bundle_without_plain_steps_is_refused(bundles: dict[str, Bundle]) -> None:
    with refuses(EngineError, "no usable program feeds 'verifier' a single token"):
        load_programs(edited(bundles["xla"], {"requires": ("teleport",)}))


def test_other_inputs_are_refused(bundles: dict[str, Bundle]) -> None:
    inputs = first(bundles["xla"]).inputs[1:]
    with refuses(EngineError, "steps are fed tokens, position and rows", "re-compile"):
        load_programs(edited(bundles["xla"], {"inputs": inputs, "donated": (2, 3)}))


def test_arguments_given_up_that_are_no_state_are_refused(bundles: dict[str, Bundle]) -> None:
    with refuses(IntegrityError, "gives up arguments [0]"):
        load_programs(edited(bundles["xla"], {"donated": (0,)}))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"source": "verifier.nothing"}, "has no weight 'verifier.nothing'"),
        ({"shape": (3, 3)}, "a program takes float32[3, 3]"),
        ({"dtype": "float16"}, "a program takes float16"),
    ],
)
def test_weights_that_do_not_fit_are_refused(bundles: dict[str, Bundle], change: dict[str, object], told: str) -> None:
    weights = first(bundles["xla"]).weights
    broken = edited(bundles["xla"], {"weights": (replace(weights[0], **change), *weights[1:])})
    with refuses(IntegrityError, told, "re-copy or re-compile"):
        load_programs(broken).verify(TEXT[:1], 0, 1)


def damaged(bundle: Bundle, root: Path) -> None:
    """Exports of every program that are none."""
    for program in bundle.manifest.programs:
        (root / program.file).parent.mkdir(exist_ok=True)
        (root / program.file).write_bytes(b"no export at all, but long enough to look like one" * 9)


def test_stablehlo_is_compiled_where_the_export_is_not_read(
    bundles: dict[str, Bundle], expected: NDArray[np.float32], tmp_path: Path
) -> None:
    (tmp_path / "weights.safetensors").symlink_to(bundles["xla"].path("weights.safetensors"))
    damaged(bundles["xla"], tmp_path)
    file = str(first(bundles["xla"]).stablehlo)
    (tmp_path / file).symlink_to(bundles["xla"].path(file))
    programs = load_programs(Bundle(tmp_path, bundles["xla"].manifest))
    before = pointers(programs)
    for row in range(3):
        found = programs.verify(TEXT[row : row + 1], row, 1)
        np.testing.assert_allclose(found, expected[row : row + 1], rtol=0, atol=1e-4)
    assert pointers(programs) == before


def test_a_damaged_program_is_named(bundles: dict[str, Bundle], tmp_path: Path) -> None:
    (tmp_path / "weights.safetensors").symlink_to(bundles["xla"].path("weights.safetensors"))
    damaged(bundles["xla"], tmp_path)
    for program in bundles["xla"].manifest.programs:
        (tmp_path / str(program.stablehlo)).write_bytes(b"nor is this StableHLO")
    broken = load_programs(Bundle(tmp_path, bundles["xla"].manifest))
    with pytest.raises(EngineError, match=r"verify\.w1\.jax_export: .*; re-copy or re-compile the bundle"):
        broken.verify(TEXT[:1], 0, 1)


def test_a_failed_call_loses_the_caches(bundles: dict[str, Bundle], monkeypatch: pytest.MonkeyPatch) -> None:
    programs = load_programs(bundles["xla"])
    call = call_of(programs, 1)

    def fail(*_: object) -> None:
        raise RuntimeError("INTERNAL: no memory\nand more")

    monkeypatch.setitem(call.__dict__, "_compiled", fail)
    with refuses(EngineError, "INTERNAL: no memory", "specc check"):
        programs.verify(TEXT[:1], 0, 1)
    with refuses(EngineError, "its caches are lost; load the bundle anew"):
        programs.verify(TEXT[:2], 0, 2)


@pytest.mark.parametrize("package", ["jax", "flatbuffers"])
def test_a_missing_engine_is_one_clear_line(package: str) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "import specc_runtime.errors as errors\n"
        "try: import specc_runtime.engines.xla\n"
        "except errors.EngineError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1
    assert "pip install" in done.stdout
    assert package in done.stdout


def executable_of(bundle: Bundle, root: Path, made_for: dict[str, str], content: bytes | None = None) -> Bundle:
    """The bundle with an executable of its plain step, made for what `made_for` says."""
    program = first(bundle)
    made = compiled_stablehlo(
        bundle.path(str(program.stablehlo))
    )  # not through JAX: what its cache gives has lost parts
    (root / "step.executable").write_bytes(made.client.serialize_executable(made) if content is None else content)
    for path in bundle.root.iterdir():
        (root / path.name).symlink_to(path)
    executable = Executable("step.executable", made_for, 1.0, {})
    programs = tuple(replace(p, executable=executable) if p.id == program.id else p for p in bundle.manifest.programs)
    return Bundle(root, replace(bundle.manifest, programs=programs))


HERE = {"jaxlib": version("jaxlib"), "device": jax.devices()[0].device_kind}


@pytest.mark.parametrize(
    ("made_for", "used"),
    [(HERE, True), (HERE | {"jaxlib": "0.1"}, False), (HERE | {"device": "TPU v9"}, False), ({}, False)],
    ids=["here", "another version", "another device", "nothing said"],
)
def test_an_executable_is_used_where_it_was_made_for(
    bundles: dict[str, Bundle], expected: NDArray[np.float32], tmp_path: Path, made_for: dict[str, str], used: bool
) -> None:
    programs = load_programs(executable_of(bundles["xla"], tmp_path, made_for))
    assert isinstance(programs, FixedWidthPrograms)
    for row in range(3):
        found = programs.verify(TEXT[row : row + 1], row, 1)
        np.testing.assert_allclose(found, expected[row : row + 1], rtol=0, atol=1e-4)
    call = call_of(programs, 1)
    assert (call._executable is not None) == used
    assert (type(call._compiled).__name__ == "function") == used
    before = pointers(programs)
    programs.verify(TEXT[3:4], 3, 1)
    assert pointers(programs) == before


def test_an_executable_that_the_driver_refuses_is_passed_over(
    bundles: dict[str, Bundle], expected: NDArray[np.float32], tmp_path: Path
) -> None:
    programs = load_programs(executable_of(bundles["xla"], tmp_path, HERE, content=b"not one"))
    np.testing.assert_allclose(programs.verify(TEXT[:1], 0, 1), expected[:1], rtol=0, atol=1e-4)
