#!/usr/bin/env bash
# Runs the kernels of this folder on this machine; see `run.sh help`. Nothing is installed and nothing is compiled.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)

python=python3
command -v "$python" >/dev/null || { echo "run.sh: needs python3" >&2; exit 1; }
halide=$here/lib/libHalide.so
if [ ! -e "$halide" ]; then
    # Unpacked aside and moved into its place whole, so that an interrupted run leaves nothing half written.
    part=$halide.$$
    trap 'rm -f -- "$part"' EXIT
    if command -v xz >/dev/null; then
        xz --decompress --stdout -- "$halide.xz" >"$part"
    else
        "$python" -c 'import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1]), open(sys.argv[2], "wb"))' \
            "$halide.xz" "$part"
    fi
    chmod 755 "$part"
    mv -- "$part" "$halide"
    trap - EXIT
fi
exec "$python" "$here/run.py" "$@"
