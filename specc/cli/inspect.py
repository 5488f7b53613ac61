"""`specc inspect`: what a bundle holds, without loading an engine."""

import json
from pathlib import Path

import click

from specc.cli.flags import debug_option, json_option
from specc.cli.output import print_json, print_table
from specc_runtime.manifest import DrafterInfo, Manifest

TRIED = frozenset({"cpu"})  # targets whose programs were run; docs/backends.md says where
UNTESTED = ", untested on device"


@click.command("inspect", short_help="Show what a bundle holds.")
@click.argument("bundle", type=click.Path(path_type=Path))
@json_option
@debug_option
def inspect_command(bundle: Path, as_json: bool) -> None:
    """Show the models, programs, shapes, precision and sizes of BUNDLE.

    No engine is loaded; files are checked by size, not by hash (`specc check` does that).
    """
    from specc.cli.manifest_tables import (
        print_executables,
        print_memory,
        print_parts,
        print_programs,
        print_signatures,
        print_speculation,
    )
    from specc_runtime.bundle import open_bundle
    from specc_runtime.manifest_writing import manifest_json

    manifest = open_bundle(bundle).manifest
    if as_json:
        print_json(json.loads(manifest_json(manifest)))
        return
    print_table(("", ""), _facts(manifest), title=str(bundle))
    print_parts(manifest)
    print_memory(manifest)
    print_programs(manifest)
    print_executables(manifest)
    print_speculation(manifest)
    print_signatures(manifest)


def _facts(manifest: Manifest) -> list[tuple[str, object]]:
    from specc.render import byte_count

    model = manifest.verifier
    return [
        ("verifier", f"{model.name} ({model.model_type}, {model.layers} layers, {model.parameters:,} parameters)"),
        *((f"drafter {key}", _drafter(drafter)) for key, drafter in manifest.drafters.items()),
        ("target, backend", f"{manifest.target}, {manifest.backend}{_untested(manifest.target)}"),
        ("context", f"{manifest.context} positions, {manifest.slack} rows of slack"),
        ("gammas", f"{', '.join(map(str, manifest.gammas))} (default {manifest.gamma})"),
        ("threads", manifest.threads or "not measured"),
        ("requires", ", ".join(sorted({name for program in manifest.programs for name in program.requires})) or "-"),
        ("files", f"{len(manifest.files)}, {byte_count(sum(entry.bytes for entry in manifest.files.values()))}"),
        ("compiled by", ", ".join([f"specc {manifest.specc_version}", *map(" ".join, manifest.toolchain.items())])),
    ]


def _untested(target: str) -> str:
    chip = target.partition(":")[0]  # "cpu:8" is a CPU that pretends to have eight devices
    return "" if chip in TRIED else UNTESTED


def _drafter(drafter: DrafterInfo) -> str:
    if drafter.model is None:
        return "n-gram lookup in the text so far"
    shares = f", shares {', '.join(drafter.shares)}" if drafter.shares else ""
    return f"{drafter.model.name} ({drafter.model.layers} layers, {drafter.model.parameters:,} parameters{shares})"
