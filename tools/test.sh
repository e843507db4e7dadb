# shellcheck shell=bash
# ./dev test: everything by g++, the parts without Halide again by clang under sanitizers, then one ctest over
# both trees, whose summary is the last thing printed. Sourced by ./dev.

run_tests() {
    run_setup
    configure_main
    configure_sanitized
    build_tree build
    build_tree build-sanitize
    step "running the tests"
    local status=0
    # The summary stays the last output: the exit code alone carries the verdict on.
    ctest --test-dir build --output-on-failure --no-tests=error --timeout 600 -j "$(jobs_here)" "$@" || status=$?
    exit "$status"
}
