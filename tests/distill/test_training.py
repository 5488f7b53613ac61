from pathlib import Path

import pytest
import torch

from specc.assembly.sources import open_model
from specc.distill.acceptance import AcceptanceMeter
from specc.distill.chat_pieces import chat_pieces
from specc.distill.conversations import Conversations, converse
from specc.distill.corpus import Corpus
from specc.distill.drafters import FeatureDrafter
from specc.distill.options import DistillOptions, Recipe
from specc.distill.training import Training
from specc.distill.verifier import Verifier
from specc.distill.working_folder import WorkingFolder
from tests.distill.tiny_verifier import write_tiny_verifier

LAYERS = (0, 2)


@pytest.fixture(scope="module")
def verifier(tmp_path_factory: pytest.TempPathFactory) -> Verifier:
    folder: Path = write_tiny_verifier(tmp_path_factory.mktemp("verifier"))
    return Verifier(open_model(str(folder), ()), torch.float32, torch.device("cpu"))


@pytest.fixture(scope="module")
def text(verifier: Verifier, tmp_path_factory: pytest.TempPathFactory) -> Conversations:
    files = open_model(str(write_tiny_verifier(tmp_path_factory.mktemp("again"))), ()).checkpoint.tokenizer
    assert files is not None
    pieces = chat_pieces(files, "x")
    return converse(verifier, pieces, pieces.openings[0], LAYERS, 24, 48, 0, float("inf"), lambda: None)


def training(verifier: Verifier, text: Conversations, output: Path, steps: int) -> Training:
    recipe = Recipe(
        batch=192, steps=3, training_steps=steps, learning_rate=0.03, held_out=6, single_share=0.0, evaluations=1
    )
    options = DistillOptions("verifier", output, head=200, recipe=recipe)
    torch.manual_seed(0)
    drafter = FeatureDrafter(verifier, len(LAYERS))
    ids = torch.arange(100, 300)
    meter = AcceptanceMeter(drafter, verifier.head[ids], ids, verifier.head)
    return Training(options, drafter, meter, Corpus([text], 7, recipe.held_out), WorkingFolder(options, "hash"))


def test_loss_falls_and_the_best_is_kept(verifier: Verifier, text: Conversations, tmp_path: Path) -> None:
    run = training(verifier, text, tmp_path / "out", 5)
    run.run(1e9, lambda _: None)
    more = training(verifier, text, tmp_path / "out", 120)
    more.run(1e9, lambda _: None)
    first, last = more.curve[0], more.curve[-1]
    assert (first.step, last.step) == (5, 120)
    assert last.loss < 0.7 * first.loss
    assert set(more.best()) == set(run.best())
    best = max(point.tokens_per_round for point in more.curve)
    greedy, sampled = more.measured(more.best())
    assert (greedy.tokens_per_round(4) + sampled.tokens_per_round(4)) / 2 == pytest.approx(best, abs=1e-6)


def test_a_resumed_run_ends_in_the_same_weights(verifier: Verifier, text: Conversations, tmp_path: Path) -> None:
    """The schedule reads the share of the steps, so a run stopped by time is compared with itself."""
    whole = training(verifier, text, tmp_path / "whole", 8)
    whole.run(1e9, lambda _: None)

    class Killed(Exception):
        pass

    def kill_after(steps: int) -> None:
        run = training(verifier, text, tmp_path / "parts", 8)
        done = 0

        def elapsed(_: float) -> None:
            nonlocal done
            done += 1
            if done == steps:
                run.save()
                raise Killed

        with pytest.raises(Killed):
            run.run(1e9, elapsed)

    kill_after(3)
    kill_after(2)
    resumed = training(verifier, text, tmp_path / "parts", 8)
    resumed.run(1e9, lambda _: None)
    for name, weights in whole.best().items():
        assert torch.equal(resumed.best()[name], weights), name
    assert resumed.curve[-1].step == 8
