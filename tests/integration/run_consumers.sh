#!/bin/bash
# run_consumers.sh BUILD WORK gcc|clang: builds and runs the consumers against an installation of BUILD that was moved
# after it was made. gcc builds the generator too; clang takes gcc's.
set -euo pipefail
build=$1 work=$2 compiler=$3
here=$(cd "$(dirname "$0")" && pwd)
case $compiler in
gcc) cc=gcc cxx=g++ ;;
clang) cc=clang cxx=clang++ ;;
esac
if ! command -v "$cxx" >/dev/null; then
  echo "SKIP: no $cxx on this machine"
  exit 77
fi
# Nothing of the build tree may help.
unset KILN_GENERATORS KILN_BUILD_TOOL
prefix=$work/moved
if [ "$compiler" = gcc ] || [ ! -d "$prefix" ]; then
  rm -rf "$work"
  cmake --install "$build" --prefix "$work/first" >/dev/null
  mv "$work/first" "$prefix"
fi
object=$work/gcc/scale_generator.so
options=(-DBUILD_GENERATOR=ON)
if [ "$compiler" = clang ] && [ -f "$object" ]; then
  options=(-DBUILD_GENERATOR=OFF "-DGENERATOR_OBJECT=$object")
fi
cmake -G Ninja -S "$here/consumers" -B "$work/$compiler" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER=$cc \
  -DCMAKE_CXX_COMPILER=$cxx "${options[@]}" >"$work/$compiler.configure.log" || { cat "$work/$compiler.configure.log"; exit 1; }
cmake --build "$work/$compiler" -j 2 >"$work/$compiler.build.log" || { tail -50 "$work/$compiler.build.log"; exit 1; }

# A kernel library defines its own functions only, carries no runtime, and asks for the runtime of its ABI.
archive=$work/$compiler/scale.kernels/scale.a
defined=$(nm -g --defined-only "$archive" | awk 'NF == 3 { print $3 }' | sort | tr '\n' ' ')
if [ "$defined" != "scale scale_argv scale_info scale_prepare scale_workspace " ]; then
  echo "scale.a defines: $defined"
  exit 1
fi
nm -u "$archive" | grep -q kiln_runtime_abi_1

# Nothing is built again without a reason.
ninja -C "$work/$compiler" | grep -q "no work to do"
ctest --test-dir "$work/$compiler" --output-on-failure
