# shellcheck shell=bash
# Build trees: configure once, again only when an option changed, then build. Sourced by ./dev.

# configure_tree FOLDER OPTION...: does nothing when FOLDER was configured with just these options.
configure_tree() {
    local folder=$1 wanted
    shift
    wanted=$(printf '%s\n' "$KILN_ROOT" "$@")
    if [ -f "$folder/build.ninja" ] && [ "$(cat -- "$folder/dev-options.txt" 2>/dev/null)" = "$wanted" ]; then
        return 0
    fi
    step "configuring $folder"
    # A cache from another place or compiler cannot be reused; objects that still fit are kept otherwise.
    if [ -f "$folder/CMakeCache.txt" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$KILN_ROOT" "$folder/CMakeCache.txt"; then
        rm -rf -- "$folder"
    fi
    mkdir -p -- "$folder"
    quietly "$KILN_LOG/configure-$folder.log" cmake -S . -B "$folder" -G Ninja "$@"
    printf '%s\n' "$wanted" >"$folder/dev-options.txt"
    step_done
}

configure_main() {
    local halide
    halide=$(halide_folder)
    # Halide_DIR by name: the wheel's other entry, in share/cmake, would ask for Python's headers.
    configure_tree build -DCMAKE_CXX_COMPILER=g++ -DCMAKE_C_COMPILER=gcc \
        "-DCMAKE_PREFIX_PATH=$halide" "-DHalide_DIR=$halide/lib64/cmake/Halide" \
        "-DPython3_EXECUTABLE=$KILN_PY/bin/python" \
        "-DKILN_SANITIZED_TREE=$KILN_ROOT/build-sanitize"
}

# The parts that need no Halide, by clang and under the address and undefined-behaviour sanitizers.
configure_sanitized() {
    configure_tree build-sanitize -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang -DKILN_SANITIZE=ON \
        "-DPython3_EXECUTABLE=$KILN_PY/bin/python"
}

# build_tree FOLDER [TARGET...]
build_tree() {
    local folder=$1
    shift
    step "building $folder${*:+: $*}"
    ninja -C "$folder" -j "$(jobs_here)" "$@" || die "the build of $folder failed; see the first error above"
    step_done
}

# What `cmake --install build` takes, without the tests.
build_installed() {
    build_tree build kiln_program kiln_generators kiln_runtime kiln-build kiln-measure autoschedule_kiln kiln_mpi
}
