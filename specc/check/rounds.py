"""Do the programs that run a whole round emit what the host emits, given the same uniforms?"""

from collections.abc import Iterator
from dataclasses import replace

from specc.check.prompts import prompt_ids
from specc.check.subject import Subject, Way
from specc.progress import Progress
from specc.reports import CheckRow
from specc_runtime import SamplingParams

NEW_TOKENS = 32
SEEDS = 6  # texts of each kind of request
MIN_IDENTICAL = 0.75  # of the texts: the two sum a law in different order, and now and then a draw falls between
REQUESTS = (
    SamplingParams(temperature=1.0, ignore_eos=True),
    SamplingParams(temperature=0.8, top_k=50, top_p=0.9, min_p=0.02, ignore_eos=True),
)


def check_rounds(subject: Subject, progress: Progress) -> Iterator[CheckRow]:
    """A row per round program; one that says n/a if the bundle has none."""
    prompts = list(prompt_ids(subject.bundle).values())
    cases = [(request, seed, prompts[seed % len(prompts)]) for request in REQUESTS for seed in range(SEEDS)]
    ways = dict.fromkeys(way for request in REQUESTS for way in subject.ways(request) if way.fused)
    if not ways:
        yield CheckRow("fused rounds", None, "the bundle has no round programs; compile with --fuse to add them")
    for way in ways:
        identical = 0
        with progress.step(f"rounds of {way}", len(cases)) as step:
            for request, seed, prompt in cases:
                count = min(NEW_TOKENS, subject.bundle.manifest.context - len(prompt))
                params = replace(request, seed=seed, max_new_tokens=count)
                chained = subject.generate(Way(way.drafter, way.gamma), prompt, params)
                identical += chained == subject.generate(way, prompt, params)
                step.advance()
        detail = f"{identical} of {len(cases)} sampled texts are the host's (at least {MIN_IDENTICAL:.0%})"
        yield CheckRow(f"rounds of {way}", identical >= MIN_IDENTICAL * len(cases), detail)
