"""Memory of a bundle with five gammas against one gamma: `python benchmarks/gamma_memory.py MODEL --draft D`.

Compiles both, loads each in a process of its own, decodes with every gamma, and prints the resident memory.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

PROBE = """
import sys, psutil
from specc_runtime import Engine, SamplingParams
engine = Engine.load(sys.argv[1], threads=1)
for gamma in engine.manifest.gammas:
    engine.generate(list(range(100, 140)), SamplingParams(max_new_tokens=24, ignore_eos=True), gamma=gamma).finish()
print(psutil.Process().memory_info().rss)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--draft", default="slice:4")
    parser.add_argument("--precision", default="int8")
    asked = parser.parse_args()
    resident = {}
    with tempfile.TemporaryDirectory() as folder:
        for gammas in ("4", "1,2,4,6,8"):
            bundle = Path(folder) / f"gamma-{gammas.replace(',', '-')}"
            compile_ = ["specc", "compile", asked.model, "--draft", asked.draft, "--precision", asked.precision]
            subprocess.run([*compile_, "--gamma", gammas, "-o", str(bundle)], check=True, capture_output=True)
            probe = subprocess.run(
                [sys.executable, "-c", PROBE, str(bundle)], check=True, capture_output=True, text=True
            )
            resident[gammas] = int(probe.stdout)
            print(f"gamma {gammas}: {resident[gammas] / 2**20:.0f} MiB resident")
    print(f"ratio: {resident['1,2,4,6,8'] / resident['4']:.3f}")


if __name__ == "__main__":
    main()
