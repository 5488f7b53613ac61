"""The rendered files: as the golden ones, and right by the judgement of the tools that read them."""

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from specc.backends import known_backends, load_backend, usable_backends
from specc.backends.record import Container
from specc.deployment.emitting import render_files
from specc.deployment.kinds import known_kinds, load_kind
from specc.deployment.records import Asked, Subject
from specc.deployment.subject import describe
from specc.targets import known_targets, load_target
from tests.deployment.pbtxt import parsed_config
from tests.support.manifests import small_manifest

GOLDEN = Path(__file__).parents[1] / "render" / "golden"
RUFF = [sys.executable, "-m", "ruff", "--isolated"]
RULES = "E,F,W,I,B,C4,SIM,RET,PIE,UP,N,RUF,D100,D101,D102,D103,D104,D205,D209,D210,D300,D402,D403,D405,D419"


def subject(**changes: object) -> Subject:
    manifest = replace(
        small_manifest(),
        toolchain={"onnxruntime": "1.32.0", "onnx": "1.23.2", "python": "3.11.7"},
    )
    return replace(describe(manifest, Asked(name="tiny")), **changes)


ACCELERATORS = {"a100": "tensorrt", "h100": "tensorrt", "mi300x": "migraphx", "tpu-v5e": "xla"}
TOOLCHAIN = {"tensorrt-rtx": "1.7.1.116", "jax": "0.10.2", "onnx": "1.23.2"}


def accelerated(target: str) -> Subject:
    """Of a bundle for a machine of its own, with programs built where they are."""
    backend = load_backend(ACCELERATORS[target])
    programs = tuple(replace(p, built=target == "a100") for p in small_manifest().programs)
    toolchain = {package: TOOLCHAIN[package] for package in backend.toolchain if package in TOOLCHAIN}
    changed = {"target": target, "backend": backend.name, "programs": programs, "toolchain": toolchain}
    return describe(replace(small_manifest(), **changed), Asked(name="tiny"))


def variants() -> Iterator[Subject]:
    """Everything a template asks about, both ways."""
    yield from map(accelerated, ACCELERATORS)
    plain = subject()
    yield plain
    yield replace(plain, bundle_path="/srv/it's here", threads=3, fused=True)
    yield replace(plain, manifest=replace(plain.manifest, tokenizer=None))
    nvidia = Container("vendor/image:1", ("https://vendor",), ("engine>=2",), devices=("--gpus all",))
    yield replace(plain, container=nvidia, on_cpu=False, build_script="build.sh")
    amd = replace(nvidia, system_packages=("engine",), environment={"PYTHONPATH": "/opt/x"}, on_triton=False)
    yield replace(plain, container=amd, on_cpu=False, build_script="build.py")
    yield replace(plain, container=None, on_cpu=False)


def rendered(suffix: str) -> list[tuple[str, str]]:
    """Every different text of files that end in `suffix`, with a name for the test."""
    texts = {
        text: f"{kind}/{path}"
        for kind in reversed(known_kinds())
        for variant in variants()
        for path, text in render_files(load_kind(kind), variant).items()
        if path.endswith(suffix)
    }
    return [(name, text) for text, name in texts.items()]


def tool(name: str) -> str:
    """Where program `name` is, of this environment or the system's."""
    path = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if path is None:
        pytest.skip(f"{name} is not installed (extra `test`, or the system's package)")
    return path


@pytest.mark.parametrize("kind", known_kinds())
def test_files_equal_the_golden_ones(kind: str) -> None:
    texts = render_files(load_kind(kind), subject())
    folder = GOLDEN / kind
    if os.environ.get("UPDATE_GOLDEN"):
        shutil.rmtree(folder, ignore_errors=True)
        for path, text in texts.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    golden = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert golden == set(texts)
    for path, text in texts.items():
        assert text == (folder / path).read_text(encoding="utf-8"), path


@pytest.mark.parametrize("target", ACCELERATORS)
def test_images_of_accelerators_equal_the_golden_ones(target: str) -> None:
    texts = render_files(load_kind("docker"), accelerated(target))
    for path in ("Dockerfile", "build.Dockerfile", "requirements.txt", "README.md"):
        golden = GOLDEN / "accelerators" / target / path
        if os.environ.get("UPDATE_GOLDEN"):
            golden.parent.mkdir(parents=True, exist_ok=True)
            golden.write_text(texts[path], encoding="utf-8")
        assert texts[path] == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", known_kinds())
@pytest.mark.parametrize(("target", "script"), [("h100", "build_tensorrt.py"), ("mi300x", "build_migraphx.py")])
def test_readme_says_to_build_on_the_device_first(kind: str, target: str, script: str) -> None:
    made = load_kind(kind)
    readme = render_files(made, accelerated(target))["README.md"]
    beside = {"triton": "tiny/1"}.get(kind, ".")
    command = f"`PYTHONPATH={beside}:$PYTHONPATH python3 {beside}/bundle/{script}`"
    assert command in readme.partition("```")[0]
    assert "Before anything else" not in render_files(made, accelerated("a100"))["README.md"]


@pytest.mark.parametrize("kind", known_kinds())
def test_nothing_is_left_of_a_template(kind: str) -> None:
    for variant in variants():
        for path, text in render_files(load_kind(kind), variant).items():
            assert not re.search(r"\{\{|\{%|\{#", text), path
            assert text.endswith("\n"), path
            assert not re.search(r"[ \t]$", text, re.MULTILINE), path


@pytest.mark.parametrize(("name", "text"), rendered(".py"))
def test_python_compiles_and_is_linted(name: str, text: str) -> None:
    compile(text, name, "exec")
    for command in (["check", "--select", RULES], ["format", "--check"]):
        done = subprocess.run(
            [*RUFF, *command, "--line-length", "120", "--target-version", "py311", "--stdin-filename", "model.py", "-"],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("name", "text"), rendered(".sh"))
def test_shell_is_understood_and_linted(name: str, text: str) -> None:
    assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0, name
    done = subprocess.run([tool("shellcheck"), "-"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("name", "text"), rendered("config.pbtxt"))
def test_triton_understands_its_configuration(name: str, text: str, tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    if find_spec("tritonclient") is None:
        pytest.skip("tritonclient, which carries Triton's protobuf, is not installed")
    (tmp_path / "config.pbtxt").write_text(text, encoding="utf-8")
    config = parsed_config(tmp_path / "config.pbtxt")
    assert (config.name, config.backend, config.max_batch_size) == ("tiny", "python", 0)
    assert config.model_transaction_policy.decoupled
    assert [group.count for group in config.instance_group] == [1]
    assert {"input_ids", "text_input"} >= {tensor.name for tensor in config.input}
    assert all(tensor.optional for tensor in config.input) == (len(config.input) == 2)
    settings = {key: value.string_value for key, value in config.parameters.items()}
    assert set(settings) == {"bundle", "threads", "fused"}
    assert settings["bundle"] in ("bundle", "/srv/it's here")


def test_instances_go_where_the_engine_is() -> None:
    kinds = []
    for variant in variants():
        text = render_files(load_kind("triton"), variant)["tiny/config.pbtxt"]
        kinds += re.findall("KIND_[A-Z]+", text)
    assert kinds == ["KIND_MODEL"] * len(ACCELERATORS) + ["KIND_CPU"] * 3 + ["KIND_MODEL"] * 3


# Dockerfiles, by their structure.

INSTRUCTIONS = "ARG COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK RUN USER WORKDIR".split()


@pytest.mark.parametrize(("name", "text"), rendered("Dockerfile"))
def test_dockerfiles_are_sound(name: str, text: str) -> None:
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    words = [word for word, _ in lines]
    assert set(words) <= set(INSTRUCTIONS)
    assert next(word for word in words if word != "ARG") == "FROM"
    assert words.count("FROM") == words.count("ENTRYPOINT") == words.count("HEALTHCHECK") == 1
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert "RUN" not in words[words.index("USER") :], "everything is installed before root is given up"
    assert int(dict(lines)["USER"]) > 0, "a number: a cluster can tell that it is not root's"
    assert all(isinstance(word, str) for word in json.loads(dict(lines)["ENTRYPOINT"]))
    health = dict(lines)["HEALTHCHECK"]
    assert health == "NONE" or json.loads(health.partition("CMD ")[2])
    for word, rest in lines:
        if word == "RUN":
            assert subprocess.run(["sh", "-n"], input=rest, text=True, check=False).returncode == 0


@pytest.mark.parametrize(("name", "text"), rendered("Dockerfile"))
def test_dockerfiles_are_linted(name: str, text: str) -> None:
    """Left out: DL3006 wants a tag on the image the user names,
    DL3008 versions of Debian packages, DL3064 sees a secret in TOKENIZERS_PARALLELISM.
    """
    ignored = [part for rule in ("DL3006", "DL3008", "DL3064") for part in ("--ignore", rule)]
    command = [tool("hadolint"), *ignored, "--failure-threshold", "warning", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("kind", known_kinds())
def test_dockerfiles_copy_what_is_there(kind: str) -> None:
    made = load_kind(kind)
    for variant in variants():
        texts = render_files(made, variant)
        folders = [made.runtime, made.bundle if variant.bundle_path is None else None]
        there = {*texts, *(folder.format(name="tiny").split("/")[0] for folder in folders if folder)}
        for path, text in texts.items():
            if path.endswith("Dockerfile") and path != "build.Dockerfile":  # its context is specc's sources
                copied = [shlex.split(line)[1] for line in text.splitlines() if line.startswith("COPY")]
                assert set(copied) <= there | {"tiny"}
                assert ("bundle" in copied) == ("bundle" in there)


def test_images_are_the_backends_own() -> None:
    *_, nvidia, amd, unknown = variants()
    assert "\n# https://vendor\nFROM vendor/image:1\n" in render_files(load_kind("docker"), nvidia)["Dockerfile"]
    assert "\nARG BASE_IMAGE\nFROM ${BASE_IMAGE}\n" in render_files(load_kind("docker"), unknown)["Dockerfile"]
    for path in ("Dockerfile", "build.Dockerfile"):
        text = render_files(load_kind("docker"), amd)[path]
        assert " apt-get install -y --no-install-recommends engine " in text
        assert "\nENV PYTHONPATH=/opt/x\n" in text
    assert "nvcr.io/nvidia/tritonserver" in render_files(load_kind("triton"), nvidia)["Dockerfile"]
    assert "ARG TRITON_IMAGE\n" in render_files(load_kind("triton"), amd)["Dockerfile"]
    readme = render_files(load_kind("docker"), nvidia)["README.md"]
    assert "docker run --rm --gpus all -v BUNDLE:/bundle --entrypoint bash specc /bundle/build.sh" in readme


def test_requirements_pin_the_engine_that_compiled_the_bundle() -> None:
    lines = render_files(load_kind("embedding"), subject())["requirements.txt"].splitlines()
    assert lines[-1] == "onnxruntime==1.32.0"
    assert {re.split("[=<>]", line)[0] for line in lines} == {"numpy", "tokenizers", "onnxruntime"}


@pytest.mark.parametrize(
    ("target", "backend", "on_cpu", "options"),
    [
        ("cpu", "ort", True, ""),
        ("h100", "tensorrt", False, "--gpus all "),
        ("mi300x", "migraphx", False, "--device /dev/kfd --device /dev/dri --group-add video "),
        ("tpu-v5e", "xla", False, "--privileged "),
        ("h100", "xla", False, "--gpus all "),
        ("mi300x", "xla", False, "--device /dev/kfd --device /dev/dri --group-add video "),
        ("my-own", "ort", False, ""),
    ],
)
def test_containers_get_at_the_target(target: str, backend: str, on_cpu: bool, options: str) -> None:
    described = describe(replace(small_manifest(), target=target, backend=backend), Asked())
    assert (described.on_cpu, described.docker_options) == (on_cpu, options)


def test_a_cpu_of_the_users_own_runs_where_this_one_does() -> None:
    described = describe(replace(small_manifest(), target="my-own", threads=2), Asked())
    assert described.on_cpu
    assert described.container == describe(small_manifest(), Asked()).container


@pytest.mark.parametrize("backend", known_backends())
@pytest.mark.parametrize("built", [False, True])
def test_containers_of_backends(backend: str, built: bool) -> None:
    """An image with a tag that is no moving one, each with addresses that state it; see docs/deployment.md."""
    for target in map(load_target, known_targets()):
        if backend in usable_backends(target):
            container = load_backend(backend).container(target, built)
            assert re.fullmatch(r"[a-z0-9./-]+:[0-9][a-z0-9.-]*", container.image)
            assert container.sources
            assert all(source.startswith("https://") for source in container.sources)
            assert container.packages or container.system_packages


def test_jax_comes_with_the_plugin_for_the_target() -> None:
    def jax(target: str) -> str:
        manifest = replace(small_manifest(), target=target, backend="xla", toolchain={"jax": "0.10.2"})
        return next(line for line in describe(manifest, Asked()).requirements if line.startswith("jax"))

    assert [jax(target) for target in ("cpu", "tpu-v4", "h100", "mi300x")] == [
        "jax==0.10.2",
        "jax[tpu]==0.10.2",
        "jax[cuda13]==0.10.2",
        "jax[rocm7-local]==0.10.2",
    ]


def test_portable_engines_get_the_full_tensorrt_and_built_ones_the_one_that_built_them() -> None:
    built, portable = accelerated("a100").requirements, accelerated("h100").requirements
    assert [line for line in built if line.startswith("tensorrt")] == ["tensorrt-rtx==1.7.1.116"]
    assert [line for line in portable if line.startswith("tensorrt")] == ["tensorrt>=11"]


# systemd units.


@pytest.mark.parametrize(("name", "text"), rendered(".service") + rendered(".socket"))
def test_units_hold_together(name: str, text: str) -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    if name.endswith(".socket"):
        assert unit["Socket"]["ListenFIFO"] == "/run/specc/tiny"
        return
    assert unit["Unit"]["Requires"] == unit["Unit"]["After"] == "tiny.socket"
    folder = unit["Service"]["WorkingDirectory"]
    interpreter, program = unit["Service"]["ExecStart"].split()
    assert interpreter == f"{folder}/venv/bin/python"
    script = render_files(load_kind("systemd"), subject())
    assert program in script
    assert program in script["install.sh"]


def test_systemd_understands_its_units(tmp_path: Path) -> None:
    analyze = tool("systemd-analyze")
    for variant in variants():
        texts = render_files(load_kind("systemd"), variant)
        folder = f"/opt/specc/{variant.name}"
        for name in ("tiny.service", "tiny.socket"):
            here = texts[name].replace(f"{folder}/venv/bin/python", sys.executable).replace(folder, str(tmp_path))
            (tmp_path / name).write_text(here, encoding="utf-8")
        units = [str(tmp_path / name) for name in ("tiny.service", "tiny.socket")]
        command = [analyze, "verify", "--man=no", *units]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")
