from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from specc.bench.options import BenchOptions
from specc.bench.peers import workers
from specc.bench.peers.base import PeerSetup
from specc.bench.peers.setup import peer_setup
from specc.bench.peers.workers import PEERS, PeerPackage, PeerWorker, check_installed, start_peers
from specc.errors import BenchError
from specc_runtime import SamplingParams
from specc_runtime.manifest import PartPrecision
from tests.support.fake_peer import BROKEN
from tests.support.manifests import small_manifest
from tests.support.refusals import refuses

SETUP = PeerSetup("model", Path("cache"), "int8", threads=1, context=64, end_ids=(2,))


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PEERS, "fake", PeerPackage("tests.support.fake_peer", "json", "fake>=1"))
    monkeypatch.setitem(PEERS, "absent", PeerPackage("tests.support.fake_peer", "no_such_module", "no-such>=2"))


@pytest.fixture(scope="module")
def worker() -> Iterator[PeerWorker]:
    PEERS["fake"] = PeerPackage("tests.support.fake_peer", "json", "fake>=1")
    with PeerWorker("fake", SETUP) as running:
        yield running
    del PEERS["fake"]


def test_a_worker_says_what_it_runs(worker: PeerWorker) -> None:
    assert (worker.precision, worker.modes) == ("integers", ("plain", "twice"))
    assert worker.side("twice") == "fake, twice"
    assert worker.version
    assert worker.peak_bytes() > 1 << 20


def test_answers_come_back_as_samples(worker: PeerWorker, capfd: pytest.CaptureFixture[str]) -> None:
    sample = worker.generate("twice", [7, 5], 3)
    assert sample.ids == (5, 7, 9)
    assert (sample.prompt_tokens, sample.first_s, sample.rest_s) == (2, 0.25, 1.5)
    assert worker.generate("plain", [1], 2).ids == (1, 2)
    assert capfd.readouterr() == ("", ""), "what an engine prints stays in its process"


def test_an_engine_that_can_not_load_is_named() -> None:
    with refuses(BenchError, "fake: no such model"):
        PeerWorker("fake", replace(SETUP, model=BROKEN))


def test_an_engine_that_fails_is_named() -> None:
    with PeerWorker("fake", SETUP) as failing:
        with refuses(BenchError, "fake: an empty prompt"):
            failing.generate("plain", [], 3)
        with refuses(BenchError, "fake: its process ended"):
            failing.generate("plain", [1], 3)


def test_processes_end_with_the_stack() -> None:
    with ExitStack() as stack:
        (running,) = start_peers(["fake"], SETUP, stack)
        process = running._process
        assert process.is_alive()
    assert not process.is_alive()


def test_missing_engines_are_named_with_the_command() -> None:
    check_installed(["fake"])
    with refuses(BenchError, "no_such_module", 'pip install "no-such>=2"'):
        check_installed(["fake", "absent"])
    with refuses(BenchError, "unknown engine 'lama.cpp'; did you mean 'llama.cpp'?"):
        check_installed(["lama.cpp"])


def test_every_adapter_is_a_module_that_can_be_found() -> None:
    folder = Path(workers.__file__).parent
    for name in ("llama.cpp", "onnxruntime-genai", "openvino", "transformers"):
        assert (folder / f"{PEERS[name].adapter.rpartition('.')[2]}.py").is_file()


OPTIONS = BenchOptions(gamma=4, drafter="draft", threads=3)


@pytest.mark.parametrize(("stored", "width"), [("int8", "int8"), ("fp32", "fp32"), ("bf16", "fp16"), ("fp16", "fp16")])
def test_a_setup_follows_the_bundle(stored: str, width: str) -> None:
    parts = (PartPrecision("verifier.mlp", stored, stored, 9), PartPrecision("verifier.attention", "fp32", "fp32", 3))
    manifest = replace(small_manifest(), precision=parts, provenance={"verifier": {"source": "org/model"}})
    setup = peer_setup(manifest, OPTIONS, None, Path("c"))
    assert setup == PeerSetup("org/model", Path("c"), width, threads=3, context=16, end_ids=(2, 3))  # type: ignore[arg-type]
    assert peer_setup(manifest, OPTIONS, "other.gguf", Path("c")).model == "other.gguf"
    endless = replace(OPTIONS, sampling=SamplingParams(ignore_eos=True))
    assert peer_setup(manifest, endless, None, Path("c")).end_ids == ()


def test_a_bundle_that_does_not_name_its_checkpoint_asks_for_it() -> None:
    with refuses(BenchError, "give --model"):
        peer_setup(small_manifest(), OPTIONS, None, Path("c"))
