"""`specc bench`: speculation against plain decoding of one bundle, and against other engines."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specc.cli.flags import debug_option, examples, gamma_option
from specc.cli.output import print_json, print_line, print_table
from specc.cli.progress_bars import shown_progress

if TYPE_CHECKING:
    from specc.bench.options import BenchOptions
    from specc.bench.peers.workers import PeerWorker
    from specc.bench.questions import Question
    from specc.bench.report import BenchReport
    from specc.progress import Progress
    from specc_runtime import Engine

_PATH = click.Path(path_type=Path)
DEFAULT_CACHE = Path("out/bench-cache")


@click.command(
    "bench",
    short_help="Measure what speculation gains on your prompts.",
    epilog=examples(
        "specc bench out/smollm2 --prompts question.jsonl --limit 80 --gamma auto",
        "specc bench out/smollm2 --prompts prompts.txt --html report.html --json report.json",
        "specc bench out/smollm2 --prompts prompts.txt --against onnxruntime-genai,llama.cpp",
    ),
)
@click.argument("bundle", type=_PATH)
@click.option(
    "--prompts",
    type=_PATH,
    required=True,
    metavar="FILE",
    help="Spec-Bench's question.jsonl, or a text: a prompt a line.",
)
@click.option("--whole-file", is_flag=True, help="Take a text file as one prompt.")
@click.option("--per-category", type=click.IntRange(1), metavar="N", help="Draw at most N prompts of each category.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Draw at most N prompts, categories evenly.")
@click.option("--turns", type=click.IntRange(1), default=1, show_default=True, help="Turns of a question to ask.")
@click.option("--chat/--no-chat", default=None, help="Ask in the model's chat format.  [default: if it has one]")
@click.option("--max-new-tokens", type=int, default=128, show_default=True, help="Most tokens of an answer.")
@click.option("--temperature", type=float, default=0.0, show_default=True, help="0 takes the likeliest token.")
@click.option(
    "--top-p",
    type=float,
    default=1.0,
    show_default=True,
    help="Sample from the likeliest tokens that hold P of the mass.",
)
@click.option("--top-k", type=int, default=0, help="Sample from the K likeliest tokens.  [default: all]")
@click.option("--seed", type=int, default=0, show_default=True, help="Draws the prompts, and samples.")
@click.option("--ignore-eos", is_flag=True, help="Go on after an end-of-text token.")
@gamma_option
@click.option("--drafter", metavar="NAME", help="One of the bundle's drafters, or ngram.  [default: the bundle's]")
@click.option("--threads", type=int, help="Threads of every engine.  [default: measured when compiled]")
@click.option("--against", metavar="ENGINE,...", help="llama.cpp, onnxruntime-genai, openvino, transformers.")
@click.option("--model", metavar="MODEL", help="The checkpoint other engines convert.  [default: the bundle's]")
@click.option("--cache", type=_PATH, default=DEFAULT_CACHE, show_default=True, help="Folder of their conversions.")
@click.option("--html", type=_PATH, metavar="FILE", help="Write the report as one page.")
@click.option(
    "--json", "json_to", is_flag=False, flag_value="-", metavar="[FILE]", help="Write it as JSON; alone: to stdout."
)
@debug_option
def bench_command(bundle: Path, **asked: Any) -> None:
    """Decode prompts with BUNDLE's speculation and plainly, in turn, and compare."""
    from specc.bench.verdict import verdict

    questions = _questions(asked)
    with shown_progress() as progress:
        report = _benchmark(bundle, questions, asked, progress)
    lines = verdict(report)
    _write_files(report, lines, asked)
    if asked["json_to"] == "-":
        from specc.bench.report import document

        print_json(document(report, lines))
    else:
        _print_report(report, lines)


def _questions(asked: dict[str, Any]) -> "list[Question]":
    from specc.bench.questions import draw_questions, read_questions

    questions = read_questions(asked["prompts"], "file" if asked["whole_file"] else "lines")
    return draw_questions(questions, per_category=asked["per_category"], limit=asked["limit"], seed=asked["seed"])


def _benchmark(bundle: Path, questions: "list[Question]", asked: dict[str, Any], progress: "Progress") -> "BenchReport":
    from specc.bench.benchmarking import run_benchmark
    from specc_runtime import Engine

    engine = Engine.load(bundle, threads=asked["threads"])
    options = _options(engine, asked)
    with ExitStack() as stack:
        peers = _peers(engine, options, asked, stack, progress) if asked["against"] else []
        return run_benchmark(engine, questions, options, peers, progress)


def _options(engine: "Engine", asked: dict[str, Any]) -> "BenchOptions":
    from specc.bench.options import BenchOptions, chosen_drafter, chosen_gamma
    from specc.cli.sampling_flags import sampling_params

    return BenchOptions(
        gamma=chosen_gamma(engine.manifest, asked["gamma"]),
        drafter=chosen_drafter(engine.manifest, asked["drafter"]),
        sampling=sampling_params(asked),
        turns=asked["turns"],
        chat=asked["chat"],
        threads=asked["threads"] or engine.manifest.threads or 1,
    )


def _peers(
    engine: "Engine", options: "BenchOptions", asked: dict[str, Any], stack: ExitStack, progress: "Progress"
) -> "list[PeerWorker]":
    from specc.bench.peers.setup import peer_setup
    from specc.bench.peers.workers import check_installed, start_peers

    if not options.sampling.greedy:
        raise click.UsageError("--against compares greedy decoding; leave --temperature out")
    names = [name.strip() for name in asked["against"].split(",")]
    check_installed(names)
    with progress.step("loading other engines"):
        return start_peers(names, peer_setup(engine.manifest, options, asked["model"], asked["cache"]), stack)


def _write_files(report: "BenchReport", lines: tuple[str, ...], asked: dict[str, Any]) -> None:
    from specc.bench.page import page
    from specc.bench.report import document

    if asked["json_to"] not in (None, "-"):
        text = json.dumps(document(report, lines), indent=2, ensure_ascii=False)
        Path(asked["json_to"]).write_text(text + "\n", encoding="utf-8")
    if asked["html"] is not None:
        asked["html"].write_text(page(report, lines), encoding="utf-8")


def _print_report(report: "BenchReport", lines: tuple[str, ...]) -> None:
    from specc.bench.tables import tables
    from specc.render import byte_count

    for table in tables(report):
        print_table(table.headers, table.rows, title=table.title, right=table.headers[1:])
    for line in lines:
        print_line(line)
    if report.costs is not None:
        print_line(f"If every drafted token were accepted it would be {report.costs.best_possible:.2f}x.")
    print_line(f"Peak memory: {byte_count(report.peak_bytes)}.")
