"""The bundle's manifest: what it says, and the checks that make it safe to act on.

One frozen record per table of manifest.json. The compiler writes these records, the runtime reads them; a field is
added here, with its meaning, or nowhere. Program ids are opaque: programs are selected by their attributes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

SCHEMA_VERSION = 1
MANIFEST_NAME = "manifest.json"
WEIGHTS_FILE = "weights.safetensors"
MAX_THREADS = 128  # of an engine: starting hundreds takes minutes and pays on no machine
FEATURES = "features"  # role of the state in which a verifier leaves what a drafter reads of it
VERIFIER = "verifier"  # owner of the verifier's state; drafters own theirs by their key
LAYER = "{layer}"  # in WeightSpec.source: stands for the layer's number
RECOMPUTED = "recomputed."  # before the role of a cache: its fp32 twin, that only full verification points fill

ProgramKind = Literal["prefill", "verify", "draft", "catchup", "round", "loop", "recompute"]
AcceptPlace = Literal["host", "graph"]
Dim = int | str  # a name stands for a dimension the engine binds per call: "S" rows fed, "R" rows asked for


@dataclass(frozen=True)
class TensorSpec:
    """One input or output of a program. dtype is numpy's name ("int64", "float32", "float16", "bfloat16", "uint8")."""

    name: str
    dtype: str
    shape: tuple[Dim, ...]


@dataclass(frozen=True)
class StateSpec:
    """One buffer a program updates in place: input `name`, output `output` and those in `also` are bound to its memory.

    owner: "verifier" or a key of Manifest.drafters: programs with the same owner and role share the buffer.
    role: what it holds ("layers.3.key", "layers.3.value", "features"; "recomputed.layers.3.key" in a `recompute`).
    also: outputs that hold it between the steps of a program that updates it more than once (a round's draft steps).
    cut: the axis along which the devices of a program share it evenly; None: each has all of it.
    """

    name: str
    output: str
    owner: str
    role: str
    dtype: str
    shape: tuple[int, ...]
    also: tuple[str, ...] = ()
    cut: int | None = None


@dataclass(frozen=True)
class WeightSpec:
    """One weight argument of a program that holds no weights itself.

    source: name in the weights file, of which shape[0] rows are meant, from row `start` on. With LAYER in it: those of
    the weights of shape[0] consecutive layers, from layer `first` on, stacked along a new first axis.
    cut: the axis along which the devices of a program share it evenly; None: each has all of it.
    """

    source: str
    dtype: str
    shape: tuple[int, ...]
    first: int = 0
    start: int = 0
    cut: int | None = None


@dataclass(frozen=True)
class Executable:
    """A binary of a program for one kind of device: a cache of what compiling the program's file there would give.

    made_for: what must be the same where it is loaded, by name: package versions, and what the device calls itself.
    seconds: the time it took to compile. sizes: bytes by the compiler's own account ("argument", "output", "alias",
    "temp", "code"), and "headroom", what they leave of the target's memory. options: the compiler was given, by name.
    """

    file: str
    made_for: Mapping[str, str]
    seconds: float
    sizes: Mapping[str, int]
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """One compiled static graph.

    kind: `recompute` is `verify` on fp32 caches of its own, for bundles whose caches are narrower.
    width: rows of `tokens` the program is bound to; `round`: gamma + 1. None: any number of rows up to max_width.
    drafter: key of Manifest.drafters, for draft, catchup and round. topology: key of Manifest.topologies.
    accept: where accept/resample runs. options: request options it serves ("greedy", "temperature", "top_k", ...).
    file: path inside the bundle; several programs may name one file.
    built: a binary by the vendor's compiler, or portable.
    requires: features the loader must know ("ort>=1.32"); an unknown one makes this program unusable, not the bundle.
    weights: of a program whose weights are arguments: its arguments are inputs, state and weights, in this order; its
    results outputs, then state. donated: numbers of the arguments whose memory the program may write.
    devices: how many run it together.
    stablehlo: the same program for hosts that load StableHLO. executable: the same as a binary, made ahead of time.
    """

    id: str
    kind: ProgramKind
    file: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    state: tuple[StateSpec, ...] = ()
    batch: int = 1
    width: int | None = None
    max_width: int = 1
    drafter: str | None = None
    topology: str | None = None
    accept: AcceptPlace = "host"
    options: tuple[str, ...] = ()
    built: bool = False
    requires: tuple[str, ...] = ()
    weights: tuple[WeightSpec, ...] = ()
    donated: tuple[int, ...] = ()
    devices: int = 1
    stablehlo: str | None = None
    executable: Executable | None = None


@dataclass(frozen=True)
class ModelInfo:
    """A compiled model. vocab_rows: rows of its embedding (pads included). context: positions it may use."""

    name: str
    model_type: str
    layers: int
    hidden_size: int
    vocab_rows: int
    context: int
    parameters: int


@dataclass(frozen=True)
class Speculation:
    """What drafting with one drafter costs and gains, measured where the bundle was compiled.

    round_s: seconds of rounds that draft 0, 1, 2, ... tokens, prefill apart. refill_s: seconds a known token it is fed.
    acceptance: share of its drafts of which at least the first 1, 2, ... tokens were accepted, decoding greedily.
    draft_rate: share of the rounds in which it had a draft. tokens: how many were decoded for these shares.
    """

    round_s: tuple[float, ...]
    refill_s: float
    acceptance: tuple[float, ...]
    draft_rate: float
    tokens: int


@dataclass(frozen=True)
class DrafterInfo:
    """One drafter. kind "model": has draft/catchup programs; "ngram": looks the draft up in the text so far.

    head_ids: bundle file (.npy, int32 [head_rows], ascending): full token id of each row of a trimmed head, or None.
    features: its row i also reads what the verifier leaves for row i, in a state of role "features" that belongs to the
    drafter and that its own programs and the verifier's write.
    shares: what it shares with the verifier's weights, for the report.
    measured: what drafting with it costs and gains, for choosing gamma; None: not measured.
    """

    kind: Literal["model", "ngram"]
    model: ModelInfo | None = None
    head_rows: int | None = None
    head_ids: str | None = None
    shares: tuple[str, ...] = ()
    source: str = ""
    features: bool = False
    measured: Speculation | None = None


@dataclass(frozen=True)
class Topology:
    """Drafted nodes as parents: node i hangs below parents[i] (-1: the last committed token). A chain: -1, 0, 1, ..."""

    parents: tuple[int, ...]


@dataclass(frozen=True)
class PartPrecision:
    """dtype a part is stored in, dtype it is computed in, and its bytes in the weights file."""

    part: str
    stored: str
    computed: str
    bytes: int


@dataclass(frozen=True)
class FileEntry:
    """bytes and sha256 (hex) of one bundle file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class TokenizerInfo:
    """file: tokenizer.json. token_count: ids that stand for text; from there to vocab_rows are pads, never emitted.

    chat_template: its jinja2 source. add_bos: whether a raw prompt starts with bos_id.
    """

    file: str
    token_count: int
    bos_id: int | None = None
    eos_ids: tuple[int, ...] = ()
    pad_id: int | None = None
    add_bos: bool = False
    chat_template: str | None = None


@dataclass(frozen=True)
class Manifest:
    """Everything a loader needs to know before it touches an engine.

    gammas: draft lengths the bundle has programs for; gamma: the one used by default (0: plain decoding is faster).
    slack: cache rows beyond `context` that overshooting programs may write. threads: measured best, for CPU engines.
    files: every bundle file but manifest.json.
    quality: measured distances of a quantised verifier from its checkpoint (kl, argmax_agreement).
    resident_bytes: most memory that a process held which used all of its context where it was compiled, Python and
    engine included; None: not measured.
    """

    specc_version: str
    target: str
    backend: str
    context: int
    slack: int
    gammas: tuple[int, ...]
    gamma: int
    verifier: ModelInfo
    drafters: Mapping[str, DrafterInfo]
    topologies: Mapping[str, Topology]
    programs: tuple[Program, ...]
    precision: tuple[PartPrecision, ...]
    files: Mapping[str, FileEntry]
    tokenizer: TokenizerInfo | None = None
    precision_name: str = "reference"
    threads: int | None = None
    quality: Mapping[str, float] = field(default_factory=dict)
    resident_bytes: int | None = None
    toolchain: Mapping[str, str] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    schema: int = SCHEMA_VERSION

    @property
    def model_drafters(self) -> tuple[str, ...]:
        """Keys of the drafters that are models: those that have programs."""
        return tuple(key for key, drafter in self.drafters.items() if drafter.kind == "model")
