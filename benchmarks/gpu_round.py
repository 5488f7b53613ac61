"""What rounds cost on the accelerator that is here, through XLA: models of random weights, nothing to download.

    python -m benchmarks.gpu_round [--target h200] [--json FILE] [--tiny]

A pair's figures: plain decoding, and rounds of every gamma, as the device runs them back to back; the bytes of weights
that each reads, over its time, as a share of the bandwidth that copying has here; the host's gap, which is what a round
takes when a host drives it, less what it takes back to back; a loop's time a round. Then the laws of a small model's
loop, 60,000 texts a setting. `--tiny` runs it all in small on whatever is here, a CPU included: it shows that the
script works, its figures mean nothing.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.shaped_pairs import PAIRS, TINY, Pair, drawn
from specc.backends.xla.machine import machine_of
from specc.backends.xla.program import FlatProgram
from specc.targets import load_target

LOOP_GAMMA = 4
PROMPT = 16


class Device:
    """One program, compiled, with weights and state that live on the device."""

    def __init__(self, flat: FlatProgram, compiled: Any, weights: dict[Any, Any]) -> None:
        self.flat = flat
        self._compiled = compiled
        self._weights = drawn(flat.weights, weights)
        self._state = [jnp.zeros(state.shape, state.dtype) for state in flat.state]

    @property
    def weight_bytes(self) -> int:
        """Of all weights but embedding tables that are only looked up, a model's head being its own."""
        sources = {spec.source for spec in self.flat.weights}
        looked_up = {source for source in sources if source.replace(".embedding", ".head") in sources - {source}}
        pairs = zip(self.flat.weights, self._weights, strict=True)
        return sum(array.nbytes for spec, array in pairs if spec.source not in looked_up)

    def __call__(self, inputs: Mapping[str, Any]) -> list[Any]:
        """The outputs; nothing is waited for."""
        fed = [inputs[spec.name] for spec in self.flat.inputs]
        made = self._compiled(*fed, *self._state, *self._weights)
        self._state = made[len(self.flat.outputs) :]
        return list(made[: len(self.flat.outputs)])


def compiled_all(programs: Mapping[str, FlatProgram]) -> dict[str, Any]:
    """All programs, side by side on the host's cores."""
    lowered = {name: flat.jitted().lower(*flat.arguments()) for name, flat in programs.items()}
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        return dict(zip(lowered, pool.map(lambda low: low.compile(), lowered.values()), strict=True))


def inputs_of(flat: FlatProgram, position: int, vocabulary: int, rows: int) -> dict[str, Any]:
    """Inputs of a step, a round or a loop, as numpy arrays."""
    random = np.random.default_rng(0)
    numbers: dict[str, Any] = {
        "position": position, "temperature": 1.0, "top_p": 1.0, "committed": PROMPT, "end": rows - 32, "seed": [[0, 1]],
    }  # fmt: skip
    made = {}
    for spec in flat.inputs:
        shape, dtype = tuple(map(int, spec.shape)), jnp.dtype(spec.dtype)
        if spec.name in ("tokens", "text"):
            made[spec.name] = random.integers(0, vocabulary, shape).astype(dtype)
        elif spec.name == "uniforms":
            made[spec.name] = random.random(shape).astype(dtype)
        elif spec.name == "rows":
            made[spec.name] = np.arange(shape[0], dtype=dtype)
        else:
            made[spec.name] = np.broadcast_to(np.asarray(numbers.get(spec.name, 0), dtype), shape)
    return made


def back_to_back(run: Callable[[], Sequence[Any]], calls: int) -> float:
    """Seconds a call takes when the device never waits for the host: the median of five runs of `calls`."""
    jax.block_until_ready(run())
    times = []
    for _ in range(5):
        started = time.perf_counter()
        for _ in range(calls):
            made = run()
        jax.block_until_ready(made)
        times.append((time.perf_counter() - started) / calls)
    return median(times)


def one_by_one(run: Callable[[], Sequence[Any]], calls: int) -> float:
    """Seconds a call takes when its results are read before the next."""
    jax.block_until_ready(run())
    times = []
    for _ in range(calls):
        started = time.perf_counter()
        for array in run():
            np.asarray(array)
        times.append(time.perf_counter() - started)
    return median(times)


def copy_bandwidth(size: int) -> float:
    """Bytes read and written a second by a copy of `size` bytes."""
    copy = jax.jit(lambda x: x + jnp.uint8(1))
    source = jnp.zeros(size, jnp.uint8)
    return 2 * size / back_to_back(lambda: [copy(source)], 10)


def figures_of(pair: Pair, gammas: Sequence[int], calls: int, bandwidth: float) -> dict[str, Any]:
    """Of one pair, by program: milliseconds, share of the bandwidth, the host's gap in microseconds."""
    loop_gamma = min(LOOP_GAMMA, max(gammas))
    programs = {"plain": pair.step(1), **{f"gamma {g}": pair.round(g) for g in gammas}, "loop": pair.loop(loop_gamma)}
    started, weights, rows = time.perf_counter(), dict[Any, Any](), pair.verifier.cache_rows
    compiled = compiled_all(programs)
    found: dict[str, Any] = {"compile_s": round(time.perf_counter() - started, 1)}
    for name, flat in programs.items():
        device = Device(flat, compiled.pop(name), weights)
        inputs = inputs_of(flat, rows // 2, pair.verifier.head_rows, rows)
        if name == "loop":
            found["loop"] = loop_figures(device, inputs, loop_gamma)
            continue
        if name == "plain":
            plain_bytes = device.weight_bytes
        gamma = 0 if name == "plain" else int(name.split()[1])
        size = plain_bytes + gamma * (device.weight_bytes - plain_bytes)
        chained = back_to_back(lambda device=device, inputs=inputs: device(inputs), calls)
        driven = one_by_one(lambda device=device, inputs=inputs: device(inputs), calls)
        found[name] = {
            "ms": chained * 1e3,
            "bandwidth_share": size / chained / bandwidth,
            "host_gap_us": (driven - chained) * 1e6,
        }
    for name in [name for name in found if name.startswith("gamma")]:
        found[name]["plain_steps"] = found[name]["ms"] / found["plain"]["ms"]
    return found


def loop_figures(device: Device, inputs: Mapping[str, Any], gamma: int) -> dict[str, Any]:
    """A whole generation in one call: its time a round, transfer of the text included."""
    device(inputs)
    started = time.perf_counter()
    _, counts = map(np.asarray, device(inputs))
    rounds = int((counts > 0).sum())
    return {
        "gamma": gamma,
        "ms": (time.perf_counter() - started) / rounds * 1e3,
        "rounds": rounds,
        "tokens": int(counts.sum()),
    }


def laws(settings: int, batches: int) -> dict[str, float]:
    """p of the chi-square test of each setting's texts, for a small model's loop on this device."""
    from tests.backends.xla.test_loop import SETTINGS, Batched, law_p, laws_of

    batched = Batched()
    expected = laws_of(batched, list(SETTINGS)[:settings])
    return {
        f"{name}, {'cut by the end' if not more else 'whole rounds'}": law_p(
            batched, expected[name], name, more, batches
        )
        for name in expected
        for more in (0, 4)
    }


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    yield f"{report['device']}, jax {report['jax']}: copies {report['copy_gb_s']:.0f} GB/s"
    for pair, found in report["pairs"].items():
        yield f"{pair}: compiled in {found['compile_s']} s"
        for name, row in found.items():
            if name == "loop":
                yield f"  loop, gamma {row['gamma']}: {row['ms']:8.3f} ms a round, {row['rounds']} rounds"
            elif name != "compile_s":
                yield (
                    f"  {name:8} {row['ms']:8.3f} ms  {row['bandwidth_share']:4.0%} of the copy bandwidth  "
                    f"host gap {row['host_gap_us']:6.0f} us  {row.get('plain_steps', 1):5.2f} plain steps"
                )
    for name, p in report["laws"].items():
        yield f"law, {name}: p = {p:.3f} {'ok' if p > 1e-3 else 'WRONG'}"
    yield f"{report['seconds']:.0f} s in all"


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="h200", help="the device's file in targets/")
    parser.add_argument("--pairs", default=",".join(PAIRS), help="of the shapes")
    parser.add_argument("--gammas", default="1,2,3,4,5,6,7,8")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--tiny", action="store_true", help="small shapes, few calls: shows that the script works")
    asked = parser.parse_args(arguments)
    started = time.perf_counter()
    machine = machine_of(load_target("cpu" if asked.tiny else asked.target))
    shapes = TINY if asked.tiny else {name: PAIRS[name] for name in asked.pairs.split(",")}
    gammas = (1, 2) if asked.tiny else tuple(map(int, asked.gammas.split(",")))
    bandwidth = copy_bandwidth(1 << 20 if asked.tiny else 1 << 30)
    rows, calls = (64, 3) if asked.tiny else (2048, 30)
    report: dict[str, Any] = {
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "tiny": asked.tiny,
        "copy_gb_s": bandwidth / 1e9,
        "pairs": {
            name: figures_of(Pair.of(pair, machine, rows), gammas, calls, bandwidth) for name, pair in shapes.items()
        },
        "laws": laws(1, 1) if asked.tiny else laws(3, 12),
    }
    report["seconds"] = time.perf_counter() - started
    print("\n".join(lines(report)))
    if asked.json is not None:
        asked.json.write_text(json.dumps(report, indent=1) + "\n")
    return report


if __name__ == "__main__":
    main()
