"""`specc run`: text from a bundle, and how fast it came."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specc.cli.flags import debug_option, examples, gamma_option, json_option
from specc.cli.output import print_json, print_table, warn
from specc.cli.sampling_flags import sampling_options, sampling_params

if TYPE_CHECKING:
    from specc.cli.timing import Timed
    from specc.render.chat import Message
    from specc_runtime import Engine, SamplingParams

_PATH = click.Path(path_type=Path)


@click.command(
    "run",
    short_help="Generate text from a bundle.",
    epilog=examples(
        'specc run out/smollm2 --chat --prompt "What is a shadow?" --compare',
        "specc run out/smollm2 --prompt-file start.txt --temperature 0.8 --top-p 0.95",
        'echo "1, 2, 3," | specc run out/smollm2 --gamma auto --stop 10 --json',
    ),
)
@click.argument("bundle", type=_PATH)
@click.option("--prompt", metavar="TEXT", help="The prompt.  [default: stdin]")
@click.option("--prompt-file", type=_PATH, metavar="FILE", help="Read the prompt from FILE.")
@click.option("--chat", is_flag=True, help="Put the prompt as a user's turn in the model's chat format.")
@sampling_options
@click.option("--drafter", metavar="NAME", help="One of the bundle's drafters, or ngram.  [default: the bundle's]")
@gamma_option
@click.option("--threads", type=int, help="Engine threads.  [default: measured when compiled]")
@click.option("--fused", is_flag=True, help="Use the bundle's programs that run a whole round in one call.")
@click.option("--plain", is_flag=True, help="Draft nothing: one token a step.")
@click.option(
    "--compare",
    is_flag=True,
    help="Decode the same prompt plainly too, and compare; --gamma auto if the bundle's default is plain.",
)
@json_option
@debug_option
def run_command(bundle: Path, as_json: bool, **asked: Any) -> None:
    """Generate text from BUNDLE. The text goes to stdout as it comes; figures follow on stderr."""
    from specc.cli.prompts import prompt_text
    from specc.cli.run_remarks import remarks
    from specc.render.chat import conversation
    from specc_runtime import Engine

    _check_way(asked)
    if asked["logprobs"] is not None and not as_json:
        raise click.UsageError("--logprobs are part of --json; add it")
    params = sampling_params(asked)
    text = prompt_text(asked["prompt"], asked["prompt_file"])
    engine = Engine.load(bundle, threads=asked["threads"], fused=asked["fused"])
    turn: list[Message] = [{"role": "user", "content": text}]
    prompt = engine.codec.encode(conversation(bundle, engine.manifest.tokenizer, turn) if asked["chat"] else text)
    way = {name: asked[name] for name in ("drafter", "gamma", "plain")}
    if asked["compare"] and _plain_by_default(engine, way):
        way["gamma"] = "auto"
    if params.n == 1:
        runs = _runs(engine, prompt, params, way, compare=asked["compare"], stream=not as_json)
    else:
        runs = _samples(engine, prompt, params, way, show=not as_json)
    if as_json:
        print_json(_document(runs) if params.n == 1 else {"samples": [run.record() for run in runs.values()]})
    else:
        _print_figures(runs, side_by_side=params.n == 1)
        if asked["compare"]:
            _print_verdict(runs, params)
    way["fused"] = asked["fused"]
    for remark in remarks(engine.manifest, params, way, [run.generation for run in runs.values()]):
        warn(remark)


def _check_way(asked: dict[str, Any]) -> None:
    """Refuse options that contradict each other, before a bundle is opened."""
    if asked["n"] != 1 and asked["compare"]:
        raise click.UsageError("--compare compares one text; leave --n out")
    if not asked["plain"]:
        return
    if asked["compare"]:
        raise click.UsageError("--compare decodes plainly too; leave --plain out")
    for option in ("gamma", "drafter", "fused"):
        if asked[option]:
            raise click.UsageError(f"--plain drafts nothing; leave --{option} out")


def _runs(
    engine: "Engine", prompt: list[int], params: "SamplingParams", way: dict[str, Any], *, compare: bool, stream: bool
) -> dict[str, "Timed"]:
    """What was asked for, streamed to stdout if `stream`, then to `compare` the same prompt decoded plainly."""
    from specc.cli.timing import timed

    streamer = _write if stream else None
    runs = {_label(engine, way): timed(lambda: engine.generate(prompt, params, streamer=streamer, **way))}
    if stream:
        _write("\n")
    if compare:
        engine.forget()  # or the second run would find its prompt already read
        runs["plain"] = timed(lambda: engine.generate(prompt, params, plain=True))
    return runs


def _label(engine: "Engine", way: dict[str, Any]) -> str:
    """What a run is called: how it decodes, and whether that was the bundle's choice."""
    if way["plain"]:
        return "plain"
    return "plain, as drafting did not pay" if _plain_by_default(engine, way) else "speculative"


def _plain_by_default(engine: "Engine", way: dict[str, Any]) -> bool:
    """Whether nothing is drafted because the bundle's default is 0 and nobody asked for more."""
    return way["gamma"] is None and way["drafter"] is None and not way["plain"] and engine.manifest.gamma == 0


def _samples(
    engine: "Engine", prompt: list[int], params: "SamplingParams", way: dict[str, Any], *, show: bool
) -> dict[str, "Timed"]:
    """`params.n` texts, each written to stdout when it is complete if `show`."""
    from specc.cli.timing import timed

    runs, samples = {}, engine.generate_samples(prompt, params, **way)
    for sample in range(1, params.n + 1):
        run = runs[f"sample {sample}"] = timed(lambda: next(samples))
        if show:
            _write(run.generation.text + "\n")
    return runs


def _write(piece: str) -> None:
    sys.stdout.write(piece)
    sys.stdout.flush()


def _document(runs: dict[str, "Timed"]) -> dict[str, Any]:
    from specc.speculation.differences import first_difference

    main, *others = runs.values()
    document = main.record()
    for other in others:
        difference = first_difference(main.generation.ids, other.generation.ids)
        document |= {"plain": other.record(), "identical": difference is None, "first_difference": difference}
    return document


def _print_figures(runs: dict[str, "Timed"], *, side_by_side: bool) -> None:
    """A column for each run `side_by_side`, else a row."""
    figures = {label: run.figures() for label, run in runs.items()}
    names = dict.fromkeys(name for column in figures.values() for name in column)
    table = [("", *names), *((label, *(column.get(name, "") for name in names)) for label, column in figures.items())]
    headers, *rows = zip(*table, strict=True) if side_by_side else table
    sys.stderr.write("\n")
    print_table(headers, rows, stream=sys.stderr)


def _print_verdict(runs: dict[str, "Timed"], params: "SamplingParams") -> None:
    from specc.speculation.differences import first_difference

    ours, plain = (run.generation.ids for run in runs.values())
    difference = first_difference(ours, plain)
    if difference is None:
        verdict = "yes"
    elif params.greedy:
        verdict = f"no, they differ from token {difference} on (`specc check` shows how close the two laws were there)"
    else:
        verdict = "no; sampled texts differ, their law is the same (`specc check` tests it)"
    sys.stderr.write(f"tokens identical to plain decoding: {verdict}\n")
