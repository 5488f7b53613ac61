"""What a bundle says of itself: its manifest and its README."""

import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import specc
from specc.assembly.accounting import precision_table, shared_parts
from specc.assembly.drafters import HEAD_IDS_FILE
from specc.assembly.plan import Plan
from specc.assembly.tokenizer import stage_tokenizer
from specc.backends.record import CoreModel
from specc.bundle.staging import Staging
from specc.render import bundle_readme
from specc.render.chat import conversation
from specc_runtime.errors import TokenizerError
from specc_runtime.manifest import DrafterInfo, Manifest, Program


def described(
    plan: Plan,
    verifier: CoreModel,
    drafters: Mapping[str, CoreModel],
    programs: tuple[Program, ...],
    staging: Staging,
) -> Manifest:
    """The manifest of what was staged, but for its files and what only finished programs tell."""
    tokenizer = stage_tokenizer(plan.verifier, staging)
    return Manifest(
        specc_version=specc.__version__,
        target=plan.target.name,
        backend=plan.backend.name,
        context=plan.context,
        slack=plan.slack,
        gammas=plan.gammas,
        gamma=_default_gamma(plan.gammas),
        verifier=plan.verifier.info(plan.context),
        drafters=_drafter_records(plan, verifier, drafters, staging),
        topologies={},
        programs=programs,
        precision=precision_table(
            staging.weights.weights, (verifier, *drafters.values()), partial(plan.backend.computed, plan.target)
        ),
        precision_name=plan.precision.name,
        files={},
        tokenizer=tokenizer,
        threads=plan.options.threads,
        toolchain=_versions(plan.backend.toolchain) | {"python": platform.python_version()},
        provenance=_provenance(plan),
    )


def _versions(packages: Sequence[str]) -> dict[str, str]:
    """Of those that are installed: what compiles on the device need not be here."""
    found = {}
    for package in packages:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def readme(plan: Plan, manifest: Manifest, staging: Staging) -> str:
    """The bundle's README."""
    built = all(program.built for program in manifest.programs)
    host = plan.backend.container(plan.target, built)
    return bundle_readme(
        manifest,
        _chat_example(manifest, staging),
        engine=host.packages,
        system_packages=host.system_packages,
        environment=host.environment,
        build_script=plan.backend.build_script,
    )


def _chat_example(manifest: Manifest, staging: Staging) -> str | None:
    """A user's turn in the model's chat format; None if it has none, or one that can't be filled."""
    try:
        return conversation(staging.root, manifest.tokenizer, [{"role": "user", "content": "What is a shadow?"}])
    except TokenizerError:
        return None


def _default_gamma(gammas: tuple[int, ...]) -> int:
    """Nearest to 4, where most drafters gain most."""
    return min(gammas, key=lambda gamma: (abs(gamma - 4), gamma))


def _drafter_records(
    plan: Plan, verifier: CoreModel, drafters: Mapping[str, CoreModel], staging: Staging
) -> dict[str, DrafterInfo]:
    if not plan.drafters:
        return {"ngram": DrafterInfo(kind="ngram", source="ngram")}
    records = {}
    for drafter in plan.drafters:
        core = drafters[drafter.key]
        file = None
        if not isinstance(drafter.head_ids, int):
            file = HEAD_IDS_FILE.format(key=drafter.key)
            staging.add_array(file, drafter.head_ids)
        records[drafter.key] = DrafterInfo(
            kind="model",
            model=drafter.info(),
            head_rows=core.head_rows if file else None,
            head_ids=file,
            shares=shared_parts(verifier, core),
            source=drafter.name,
            features=drafter.reads_features,
        )
    return records


def _provenance(plan: Plan) -> dict[str, Any]:
    """Where the weights come from."""
    models = {"verifier": plan.verifier} | {d.key: d.source for d in plan.drafters if d.source.weights_of is None}
    return {role: {"source": model.checkpoint.source, **model.checkpoint.provenance} for role, model in models.items()}
