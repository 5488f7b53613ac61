"""Container images: one that compiles bundles like this one, one that serves it."""

from collections.abc import Mapping

from specc.deployment.records import Kind, Subject


def _values(subject: Subject) -> Mapping[str, object]:
    """interpreter: what runs the bundle's build script. build_arguments: what the user has to add."""
    return {
        "interpreter": "python3" if (subject.build_script or "").endswith(".py") else "bash",
        "build_arguments": " --build-arg BASE_IMAGE=YOURS" if subject.container is None else "",
    }


KIND = Kind(
    summary="Dockerfiles for compiling and for serving.",
    details="The serving image answers JSON lines on stdin; `specc emit triton` makes one that speaks HTTP and gRPC.",
    example="docker out/smollm2 -o out/docker",
    files={
        "Dockerfile": "serve.Dockerfile",
        "build.Dockerfile": "build.Dockerfile",
        ".dockerignore": "dockerignore",
        "generate.py": "generate.py",
        "requirements.txt": "requirements.txt",
        "README.md": "docker_README.md",
    },
    values=_values,
    bundle="bundle",
    runtime="specc_runtime",
)
