"""Each peer in a process of its own: engines keep out of each other's memory and threads, and each is weighed alone."""

import importlib
import importlib.util
import multiprocessing
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from specc.bench.peers.base import Peer, PeerAnswer, PeerSetup
from specc.bench.samples import Sample
from specc.errors import BenchError, unknown
from specc_runtime.resident_memory import peak_bytes


@dataclass(frozen=True)
class PeerPackage:
    """adapter: the module that drives it. module: what that imports. requirement: for pip."""

    adapter: str
    module: str
    requirement: str


PEERS = {
    "llama.cpp": PeerPackage("specc.bench.peers.llama_cpp", "llama_cpp", "llama-cpp-python>=0.3.16"),
    "onnxruntime-genai": PeerPackage("specc.bench.peers.genai", "onnxruntime_genai", "onnxruntime-genai>=0.18"),
    "openvino": PeerPackage("specc.bench.peers.openvino", "openvino_genai", "openvino-genai>=2026.0"),
    "transformers": PeerPackage("specc.bench.peers.transformers", "transformers", "transformers>=5.0"),
}


def check_installed(names: Sequence[str]) -> None:
    """Raise BenchError for a name that is no peer, and for peers that are not installed, with the command that does."""
    for name in names:
        if name not in PEERS:
            raise BenchError(f"against: {unknown('engine', name, PEERS)}")
    missing = [PEERS[name] for name in names if importlib.util.find_spec(PEERS[name].module) is None]
    if missing:
        command = " ".join(f'"{package.requirement}"' for package in missing)
        raise BenchError(f"against: not installed: {', '.join(p.module for p in missing)}; pip install {command}")


class PeerWorker:
    """A peer that was loaded in another process. version: of its package. Used as a context manager: it ends there."""

    def __init__(self, name: str, setup: PeerSetup) -> None:
        self.name = name
        self._connection, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=_serve, args=(PEERS[name], setup, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self.precision, self.modes, self.version = self._receive()

    def __enter__(self) -> "PeerWorker":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._process.join(timeout=10)
        self._process.kill()

    def side(self, mode: str) -> str:
        """The name of its samples in a trial."""
        return f"{self.name}, {mode}"

    def generate(self, mode: str, prompt: Sequence[int], max_new_tokens: int) -> Sample:
        """Its greedy answer. Raises BenchError with the peer's own message if it fails."""
        answer: PeerAnswer = self._ask("generate", mode, list(prompt), max_new_tokens)
        return Sample(answer.ids, len(prompt), answer.first_s, answer.rest_s)

    def peak_bytes(self) -> int:
        """Largest resident set of its process so far."""
        peak: int = self._ask("peak_bytes")
        return peak

    def _ask(self, *message: Any) -> Any:
        with suppress(BrokenPipeError):  # what ended it may still wait to be read
            self._connection.send(message)
        return self._receive()

    def _receive(self) -> Any:
        try:
            failed, value = self._connection.recv()
        except (EOFError, ConnectionResetError):
            raise BenchError(f"{self.name}: its process ended without a word") from None
        if failed:
            raise BenchError(f"{self.name}: {value}")
        return value


def start_peers(names: Sequence[str], setup: PeerSetup, stack: ExitStack) -> list[PeerWorker]:
    """Load the peers, one after the other; they end with `stack`."""
    check_installed(names)
    return [stack.enter_context(PeerWorker(name, setup)) for name in names]


def _serve(package: PeerPackage, setup: PeerSetup, connection: Connection) -> None:
    """Load the peer and answer until the other end closes. Every message is answered by (failed, value)."""
    _silence()
    try:
        peer: Peer = importlib.import_module(package.adapter).load(setup)
        version = str(getattr(importlib.import_module(package.module), "__version__", "?"))
        connection.send((False, (peer.precision, peer.modes, version)))
        while True:
            kind, *arguments = connection.recv()
            value = peer.generate(*arguments) if kind == "generate" else peak_bytes()
            connection.send((False, value))
    except (EOFError, KeyboardInterrupt):
        return
    except Exception as error:  # engines raise what they like; the other end names the peer
        connection.send((True, (str(error).strip().splitlines() or [type(error).__name__])[0]))


def _silence() -> None:
    """Engines write on stdout and stderr; both are the report's."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
