#!/bin/bash
# run_plugin.sh BUILD WORK: a plain Halide project, built with Halide's own CMake helpers, takes its schedules from an
# installation of BUILD by `AUTOSCHEDULER Kiln::autoscheduler::Kiln`; its kernels run and are right.
set -euo pipefail
build=$1 work=$2
here=$(cd "$(dirname "$0")" && pwd)
halide=$(sed -n 's|^Halide_DIR:[A-Z]*=||p' "$build/CMakeCache.txt")
rm -rf "$work"
mkdir -p "$work"
cmake --install "$build" --prefix "$work/kiln" >/dev/null
cmake -G Ninja -S "$here/plugin" -B "$work/build" -DHalide_DIR="$halide" -DCMAKE_PREFIX_PATH="$work/kiln" \
  >"$work/configure.log" 2>&1 || { cat "$work/configure.log"; exit 1; }
cmake --build "$work/build" -j 2 >"$work/build.log" 2>&1 || { tail -60 "$work/build.log"; exit 1; }
ctest --test-dir "$work/build" --output-on-failure
