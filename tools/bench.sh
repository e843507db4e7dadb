# shellcheck shell=bash
# ./dev bench [cpu|opencl|cuda]: the README's figures, measured on this machine into docs/results. Sourced by ./dev.

run_bench() {
    local backend=${1:-cpu} python=python3
    [ $# -eq 0 ] || shift
    case $backend in
    cpu | opencl | cuda) ;;
    *) die "bench takes cpu, opencl or cuda, not \`$backend\`" ;;
    esac
    run_setup
    configure_main
    build_tree build kiln_program kiln_generators kiln_runtime kiln-build kiln-measure
    if [ "$backend" = cuda ]; then
        # The driver's own PyTorch: the wheel for it depends on the machine.
        "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null ||
            die "bench cuda wants a Python whose PyTorch sees a GPU; \`$(command -v "$python")\` has none"
    else
        if [ ! -e .kiln/bench/done.stamp ]; then
            step "installing PyTorch for the CPU into .kiln/bench"
            quietly "$KILN_LOG/bench-install.log" "$(find_python)" bench/install_torch.py .kiln/bench
            touch .kiln/bench/done.stamp
            step_done
        fi
        python=.kiln/bench/bin/python
        export LD_LIBRARY_PATH=$KILN_ROOT/.kiln/bench/stubs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    fi
    step "measuring what this machine can reach"
    quietly "$KILN_LOG/calibrate.log" build/bin/kiln device --calibrate
    step "timing kernels on $backend beside their rivals"
    "$python" bench/run.py "$backend" "$@" || die "some works failed; see above"
    step "writing the tables into README.md and docs/figures.md"
    "$KILN_PY/bin/python" bench/tables.py --into README.md
    "$KILN_PY/bin/python" bench/tables.py --page docs/figures.md
    step_done
}
