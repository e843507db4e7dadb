# shellcheck shell=bash
# ./dev demo: install what a user would install, build the example programs against it as a user would, run them and
# print one table. Sourced by ./dev.

run_demo() {
    local prefix=$KILN_ROOT/out/kiln out=$KILN_ROOT/out/demo
    run_setup
    configure_main
    build_installed
    step "installing Kiln into out/kiln"
    mkdir -p -- "$out"
    quietly "$KILN_LOG/install.log" cmake --install build --prefix "$prefix"
    step_done

    local app
    for app in gated_residual tour gpt; do
        step "building apps/$app for CPU, OpenCL and CUDA"
        quietly "$KILN_LOG/configure-$app.log" cmake -S "apps/$app" -B "$out/$app" -G Ninja \
            -DCMAKE_BUILD_TYPE=Release "-DCMAKE_PREFIX_PATH=$prefix"
        quietly "$KILN_LOG/build-$app.log" cmake --build "$out/$app" --parallel "$(jobs_here)"
        step_done
    done

    step "running a user's own kernel: apps/gated_residual"
    "$out/gated_residual/gated_residual" || die "apps/gated_residual gave a wrong result"
    step_done

    step "writing with a language model on every device of this machine: apps/gpt"
    local target
    for target in cpu opencl cuda; do
        "$out/gpt/gpt" --check apps/gpt/reference.bin --target "$target" || [ $? -eq 77 ] || die "apps/gpt gave wrong scores"
    done
    "$out/gpt/gpt" --time --tokens 120 "Ps23:1 The LORD is my shepherd"
    step_done

    step "measuring what this machine can reach"
    quietly "$KILN_LOG/calibrate.log" "$prefix/bin/kiln" device --calibrate
    "$prefix/bin/kiln" device --json >"$out/devices.json"
    step_done

    local program lines=() core
    core=$("$KILN_PY/bin/python" bench/openblas_core.py)
    [ -z "$core" ] || export OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE:-$core}
    for program in chains norms products; do
        step "running $program"
        lines+=("$out/$program.jsonl")
        # Its exit code counts wrong kernels; the table names them and carries the verdict on.
        "$out/tour/$program" >"$out/$program.jsonl" || true
        step_done
    done
    printf '\n'
    "$KILN_PY/bin/python" tools/demo_table.py "$out/devices.json" "${lines[@]}"
}
