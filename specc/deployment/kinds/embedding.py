"""A program of some fifty lines that has specc_runtime inside."""

from specc.deployment.records import Kind

KIND = Kind(
    summary="A minimal program with specc_runtime inside.",
    details="It reads requests as JSON lines on stdin and streams answers as JSON lines to stdout. The host needs "
    "Python 3.11 and what requirements.txt names; bundle and runtime are copied beside the program.",
    example="embedding out/smollm2 -o out/embedding",
    files={"generate.py": "generate.py", "requirements.txt": "requirements.txt", "README.md": "embedding_README.md"},
    bundle="bundle",
    runtime="specc_runtime",
)
