from dataclasses import replace

import pytest

from specc_runtime.errors import ManifestError
from specc_runtime.manifest import DrafterInfo, Executable, FileEntry, Manifest, Speculation, StateSpec, Topology
from specc_runtime.manifest_checks import check_bundle_path, check_manifest
from specc_runtime.manifest_reading import parse_manifest
from specc_runtime.manifest_writing import manifest_json
from tests.support.manifests import small_manifest, with_program

SMALL = small_manifest()
BAD_CHARACTERS = ("C:/x", "C:x", "a\\b", "\\\\host\\x", "a\0b", "a\nb", "\ud800", "~?", "a|b")
STATE = SMALL.programs[0].state[0]


def measured(*values: object) -> Manifest:
    """The small manifest, another measurement of its model drafter in it."""
    drafter = replace(SMALL.drafters["draft"], measured=Speculation(*values))
    return replace(SMALL, drafters={**SMALL.drafters, "draft": drafter})


FEATURES = StateSpec("past.features", "present.features", "draft", "features", "float32", (1, 20, 8))


def with_features(*keeping: str) -> Manifest:
    """The small manifest with a drafter that reads features, kept by the programs of these ids."""
    programs = tuple(replace(p, state=(*p.state, FEATURES)) if p.id in keeping else p for p in SMALL.programs)
    reading = replace(SMALL.drafters["draft"], features=True)
    return replace(SMALL, programs=programs, drafters={**SMALL.drafters, "draft": reading})


def recomputing(**changes: object) -> Manifest:
    """The small manifest with a program that recomputes its one cache, changed."""
    cache = replace(STATE, **{"role": f"recomputed.{STATE.role}"} | changes)  # type: ignore[arg-type]
    program = replace(SMALL.programs[0], id="r", kind="recompute", state=(cache,))
    return replace(SMALL, programs=(*SMALL.programs, program))


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"stablehlo": "programs/x.stablehlo"}, r"programs\[0\]\.stablehlo: 'programs/x.stablehlo' is not listed"),
        ({"stablehlo": "../x"}, r"programs\[0\]\.stablehlo: path"),
        ({"executable": Executable("x.bin", {}, 1.0, {})}, r"programs\[0\]\.executable\.file: 'x.bin' is not listed"),
        (
            {"executable": Executable("head_ids.npy", {}, 1.0, {"temp": -1})},
            r"programs\[0\]\.executable\.sizes: .* must be 0 or more",
        ),
    ],
)
def test_other_forms_of_a_program_are_checked(changes: dict[str, object], place: str) -> None:
    with pytest.raises(ManifestError, match=place):
        check_manifest(with_program(**changes))


def test_a_program_may_recompute_the_caches_of_verify() -> None:
    check_manifest(recomputing())


def test_the_small_manifest_holds_together() -> None:
    check_manifest(SMALL)


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (replace(SMALL, context=0), "context 0 must be 1 or more"),
        (replace(SMALL, gamma=3), r"gamma: 3 is not one of gammas \[2, 4\]"),
        (replace(SMALL, gammas=(2, 4, 5000)), "gammas: 5000"),
        (replace(SMALL, threads=0), "threads: 0"),
        (replace(SMALL, resident_bytes=0), "resident_bytes: 0 must be 1 or more"),
        (replace(SMALL, programs=SMALL.programs[:1] * 2), "id: 'v' is used twice"),
        (replace(SMALL, topologies={"chain": Topology((0,))}), r"topologies.chain.parents\[0\]"),
        (replace(SMALL, topologies={}), "topology: 'chain' is not in topologies"),
        (replace(SMALL, drafters={"verifier": DrafterInfo("ngram")}), "can't be called 'verifier'"),
        (replace(SMALL, drafters={"a\nb": DrafterInfo("ngram")}), "not a plain name"),
        (replace(SMALL, drafters={"draft": DrafterInfo("model")}), "drafters.draft.model"),
        (replace(SMALL, drafters={}), "'draft' is not in drafters"),
        (replace(SMALL, files={"a": FileEntry(3, "00")}), "sha256"),
        (replace(SMALL, files={"Manifest.json": FileEntry(3, "0" * 64)}), "can't list itself"),
        (replace(SMALL, tokenizer=replace(SMALL.tokenizer, token_count=9)), "token_count: 9"),
        (replace(SMALL, tokenizer=replace(SMALL.tokenizer, eos_ids=(1, 8))), r"eos_ids\[1\]: 8"),
        (replace(SMALL, tokenizer=replace(SMALL.tokenizer, file="t.json")), "'t.json' is not listed in files"),
        (with_program(file="../v.onnx"), r"programs\[0\].file: path"),
        (with_program(width=9), "width: 9 must be between 1 and max_width 8"),
        (with_program(state=(replace(STATE, owner="other"),)), "'other' is neither"),
        (with_program(state=(replace(STATE, shape=(1, 1, 2**50)),)), "impossibly large"),
        (with_program(state=(replace(STATE, shape=(1, 1, 30, 4)),)), r"programs\[1\].state\[0\]: .* elsewhere"),
        (with_program(state=(replace(STATE, dtype="float33"),)), "float33"),
        (with_program(state=(replace(STATE, name="tokens"),)), r"programs\[0\].inputs: 'tokens' is used twice"),
        (
            with_program(state=(STATE, replace(STATE, name="other", output="other out"))),
            rf"programs\[0\].state: owner and role: '{STATE.owner} {STATE.role}' is used twice",
        ),
        (with_program(state=(replace(STATE, also=("logits",)),)), r"programs\[0\].outputs: 'logits' is used twice"),
        (measured((0.1,) * 4, 0.0, (0.5,) * 4, 1.0, 9), "drafters.draft.measured: acceptance must reach"),
        (measured((0.1,) * 4, 0.0, (0.5,) * 3, 1.0, 9), "acceptance must reach the longest gamma, 4"),
        (measured((0.0,) * 5, 0.0, (0.5,) * 4, 1.0, 9), "drafters.draft.measured: round_s must be above 0"),
        (measured((0.1,) * 5, 0.0, (1.5,) * 4, 1.0, 9), "acceptance and draft_rate must lie between 0 and 1"),
        (with_features(), r"programs\[0\]: lacks the state 'features' of drafter 'draft'"),
        (with_features("v", "p"), r"programs\[2\]: lacks the state 'features' of drafter 'draft'"),
        (with_program(kind="recompute"), r"programs\[0\]: its caches are not those of the verify programs"),
        (recomputing(shape=(1, 1, 21, 4)), r"programs\[3\]: its caches are not those of the verify programs"),
        (recomputing(role="recomputed.layers.0.value"), r"programs\[3\]: its caches are not those"),
        (with_features("v", "d"), r"programs\[1\]: lacks the state 'features' of drafter 'draft'"),
        (with_program(state=(FEATURES,)), r"programs\[0\]: has the state 'features' of drafter 'draft'"),
        (
            replace(SMALL, drafters={**SMALL.drafters, "ngram": DrafterInfo("ngram", features=True)}),
            "drafters.ngram.features: only a drafter of kind model",
        ),
        (with_program(kind="draft"), r"programs\[0\].drafter: missing"),
    ],
)
def test_a_contradiction_is_refused_and_never_written(manifest: Manifest, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        check_manifest(manifest)
    with pytest.raises(ManifestError, match=message):
        manifest_json(manifest)


def test_features_are_kept_by_every_program_that_steps() -> None:
    manifest = with_features("v", "p", "d")
    check_manifest(manifest)
    assert parse_manifest(manifest_json(manifest).encode()) == manifest


def test_states_of_two_owners_may_differ() -> None:
    check_manifest(with_program(state=(StateSpec("a", "b", "draft", "other role", "float16", (2,)),)))


@pytest.mark.parametrize(
    "path",
    [*("", "/etc/passwd", "..", "a/../b", "a//b", "./a", "a/./b", "a/"), *BAD_CHARACTERS, "x" * 2000],
)
def test_paths_that_could_leave_the_bundle(path: str) -> None:
    with pytest.raises(ManifestError, match="must be relative"):
        check_bundle_path(path, "files")


@pytest.mark.parametrize("path", ["weights.safetensors", "programs/verifier.onnx", "a/b/c.d", "..x", "ünïcode.npy"])
def test_plain_paths(path: str) -> None:
    check_bundle_path(path, "files")
