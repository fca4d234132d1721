#!/usr/bin/env bash
# Installs the clients and servers of others that the tests here use, into a folder of their own: install.sh FOLDER
# Afterwards: AAR_TEST_CLIENTS=FOLDER python -m pytest tests/clients
set -euo pipefail
[ $# = 1 ] || { echo "usage: install.sh FOLDER" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)

# What is there already, and made by just these lines, is used again.
made_by=$(cat "$here/install.sh" "$here/toad_on_older_python.py" | cksum)
if [ "$(cat "$folder/made_by" 2>/dev/null)" = "$made_by" ]; then
  exit 0
fi

# node itself is among them: acpx needs a newer one than many systems have.
printf '{"private": true}\n' >"$folder/package.json"
# The versions are fixed, so npm's own cache may be believed; a registry out of reach is found out soon.
npm install --prefix "$folder" --no-audit --no-fund --loglevel=error \
  --prefer-offline --fetch-retries=1 --fetch-timeout=20000 \
  node@22 \
  acpx@0.19.1 \
  @agentclientprotocol/sdk@2.4.0 \
  @modelcontextprotocol/server-everything@2026.8.31 \
  @modelcontextprotocol/server-filesystem@2026.8.31

# Toad wants Python 3.14. On 3.13 it runs with the few names that it misses there: toad_on_older_python.py.
for python in python3.14 python3.13 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[34].*/bin/python3; do
  if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 13))' 2>/dev/null; then
    "$python" -m venv "$folder/toad"
    "$folder/toad/bin/pip" install --quiet --no-compile --ignore-requires-python batrachian-toad==0.6.20
    site=$("$folder/toad/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    cp "$here/toad_on_older_python.py" "$site/"
    echo 'import toad_on_older_python' >"$site/toad_on_older_python.pth"
    break
  fi
done

echo "$made_by" >"$folder/made_by"
