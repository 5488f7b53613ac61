"""An engine that counts upwards, for tests of what drives engines."""

import sys

from specc.bench.peers.base import PeerAnswer, PeerSetup

BROKEN = "broken"  # a model that can't be loaded


def load(setup: PeerSetup) -> "FakePeer":
    if setup.model == BROKEN:
        raise RuntimeError("no such model\nand a second line")
    return FakePeer(setup)


class FakePeer:
    precision = "integers"
    modes = ("plain", "twice")

    def __init__(self, setup: PeerSetup) -> None:
        self._setup = setup

    def generate(self, mode: str, prompt: list[int], max_new_tokens: int) -> PeerAnswer:
        sys.stdout.write("noise")
        if not prompt:
            raise ValueError("an empty prompt")
        step = 2 if mode == "twice" else 1
        return PeerAnswer(tuple(prompt[-1] + step * i for i in range(max_new_tokens)), 0.25, 0.5 * max_new_tokens)
