#!/usr/bin/env bash
# Installs tiny under /opt/specc and starts listening. Run as root; run it again to replace an installation.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

name=tiny
target=/opt/specc/$name
python=${PYTHON:-python3}

if [[ $EUID -ne 0 ]]; then
  echo "install.sh: installs to $target: run it as root" >&2
  exit 1
fi
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "install.sh: $python is older than 3.11: name a newer one with PYTHON=..." >&2
  exit 1
}

systemctl stop "$name.socket" "$name.service" 2>/dev/null || true
rm -rf "$target"
mkdir -p "$target"
cp -R generate.py requirements.txt specc_runtime bundle "$target/"
"$python" -m venv "$target/venv"
"$target/venv/bin/python" -m pip install --quiet -r "$target/requirements.txt"

getent group specc >/dev/null || groupadd --system specc
install -m 0644 "$name.service" "$name.socket" /etc/systemd/system/
systemctl daemon-reload
systemctl enable --now "$name.socket"
echo "listening on /run/specc/$name; answers: journalctl -u $name -o cat -f"
