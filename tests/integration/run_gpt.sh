#!/bin/bash
# run_gpt.sh BUILD WORK: builds apps/gpt against the installation that run_consumers.sh made in WORK, or one of its own,
# and compares its scores with PyTorch's on each device of this machine.
set -euo pipefail
build=$1 work=$2
here=$(cd "$(dirname "$0")" && pwd)
app=$here/../../apps/gpt
unset KILN_GENERATORS KILN_BUILD_TOOL
prefix=$work/moved
if [ ! -d "$prefix" ]; then
  prefix=$work/gpt-installation
  cmake --install "$build" --prefix "$prefix" >/dev/null
fi
cmake -G Ninja -S "$app" -B "$work/gpt" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix" >"$work/gpt.configure.log" ||
  { cat "$work/gpt.configure.log"; exit 1; }
cmake --build "$work/gpt" -j 2 >"$work/gpt.build.log" || { tail -50 "$work/gpt.build.log"; exit 1; }
checked=0
for target in cpu opencl cuda; do
  for type in float32 bfloat16; do
    status=0
    "$work/gpt/gpt" --check "$app/reference.bin" --target $target --type $type || status=$?
    [ $status -eq 0 ] && checked=$((checked + 1))
    [ $status -eq 0 ] || [ $status -eq 77 ] || exit 1
  done
done
[ $checked -ge 2 ] # the CPU is everywhere
# The same seed writes the same text.
one=$("$work/gpt/gpt" --tokens 40 --seed 7 "Ps23:1 The LORD is")
two=$("$work/gpt/gpt" --tokens 40 --seed 7 "Ps23:1 The LORD is")
[ "$one" = "$two" ] && [ ${#one} -ge 58 ]
