#!/usr/bin/env bash
# A program of one's own around a bundle: the one that `make demo` leaves, or the one named.
set -euo pipefail

bundle=${1:-out/smollm2}
specc emit embedding "$bundle" -o out/embedding --force >&2
printf '%s\n' \
  '{"id": 1, "prompt": "Once upon a time", "max_new_tokens": 24}' \
  '{"id": 2, "prompt": "1, 2, 3, 1, 2, 3, 1,", "max_new_tokens": 12, "gamma": 4}' |
  python3 out/embedding/generate.py
