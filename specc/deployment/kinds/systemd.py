"""A systemd service that keeps the bundle loaded."""

from specc.deployment.records import Kind

KIND = Kind(
    summary="A systemd service that keeps the bundle loaded.",
    details="The service is the program of `specc emit embedding`: requests are JSON lines written to a FIFO, answers "
    "go to the journal. install.sh sets it up under /opt/specc.",
    example="systemd out/smollm2 -o out/systemd",
    files={
        "{name}.service": "generate.service",
        "{name}.socket": "generate.socket",
        "install.sh": "systemd_install.sh",
        "generate.py": "generate.py",
        "requirements.txt": "requirements.txt",
        "README.md": "systemd_README.md",
    },
    bundle="bundle",
    runtime="specc_runtime",
    executable=("install.sh",),
)
