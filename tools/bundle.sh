# shellcheck shell=bash
# ./dev gpu-bundle: a folder that runs on a machine with a GPU driver, Python and PyTorch, where Kiln was never built.
# Sourced by ./dev.

# kernels that the bundle holds ready: a line of generator, its parameters, and targets with one library each.
bundle_kernels() { sed -e 's/#.*//' -e '/^ *$/d' tools/bundle_kernels.txt; }

# bundle_libraries FOLDER FILE...: copies into FOLDER each shared library that FILEs need, but glibc's own.
bundle_libraries() {
    local folder=$1 file path
    shift
    for file in "$@"; do
        while read -r path; do
            case $(basename -- "$path") in
            ld-linux* | libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so* | libresolv.so*) continue ;;
            libHalide.so* | libkiln*) continue ;;
            esac
            [ -e "$folder/$(basename -- "$path")" ] || cp -L -- "$path" "$folder/"
        done < <(ldd -- "$file" | sed -n 's/.* => \(\/.*\) (0x.*/\1/p')
    done
}

# bundle_kernel FOLDER GENERATOR TARGETS PARAM...: FOLDER/NAME.so, the contract in NAME.json, and
# in NAME.bundle.json what run.py must know.
bundle_kernel() {
    local folder=$1 generator=$2 targets=$3 name target arguments=() params=() param
    shift 3
    name=$generator
    for param in "$@"; do
        params+=(--param "$param")
        name+=_${param#*=}
    done
    name+=_${targets%%[-,]*}
    for target in ${targets//,/ }; do
        arguments+=(--target "$target" --schedule schedules)
    done
    quietly "$KILN_LOG/bundle-$name.log" build/bin/kiln build "$generator" "${arguments[@]}" "${params[@]}" \
        --name "$name" -o "$folder/build"
    gcc -shared -o "$folder/$name.so" -Wl,--whole-archive "$folder/build/$name.a" -Wl,--no-whole-archive \
        -Lbuild/lib -lkiln_runtime "-Wl,-rpath,\$ORIGIN/../lib" -Wl,-z,defs -s
    mv -- "$folder/build/$name.json" "$folder/$name.json"
    "$KILN_PY/bin/python" -c 'import json, sys; print(json.dumps(
        {"generator": sys.argv[1], "target": sys.argv[2], "params": sys.argv[3:]}))' \
        "$generator" "${targets%%,*}" "$@" >"$folder/$name.bundle.json"
}

make_bundle() {
    local bundle=${1:-$KILN_ROOT/out/gpu-bundle} halide packed
    run_setup
    configure_main
    build_installed

    step "gathering programs and libraries in $bundle"
    rm -rf -- "$bundle"
    mkdir -p -- "$bundle/kernels" "$bundle/licenses"
    quietly "$KILN_LOG/install.log" cmake --install build --prefix "$bundle" --strip
    # What only building programs against Kiln takes; libHalide.so travels packed.
    rm -rf -- "$bundle/lib/cmake" "$bundle"/lib/libkiln_mpi.so "$bundle"/lib/*autoschedule_kiln.so "$bundle/include/dsl" "$bundle/include/Halide.h" "$bundle/lib/libHalide.so"
    halide=$(halide_folder)/lib64/libHalide.so
    bundle_libraries "$bundle/lib" "$bundle"/bin/* "$bundle"/lib/*.so
    cp -- LICENSE THIRD_PARTY.md "$bundle/licenses/"
    cp -- "$KILN_PY"/lib/python*/site-packages/halide-*.dist-info/licenses/LICENSE.txt "$bundle/licenses/Halide.txt"
    local package
    for package in libfmt9 libsqlite3-0 libgcc-s1 libstdc++6 ocl-icd-libopencl1 nlohmann-json3-dev libcli11-dev; do
        [ ! -e "/usr/share/doc/$package/copyright" ] ||
            cp -L -- "/usr/share/doc/$package/copyright" "$bundle/licenses/$package.txt"
    done
    step_done

    # Two minutes of packing, so the packed library is kept.
    packed=$KILN_ROOT/.kiln/libHalide.so.xz
    if [ ! "$packed" -nt "$halide" ]; then
        step "packing libHalide.so"
        xz --threads=0 --x86 --lzma2=preset=6 --stdout -- "$halide" >"$packed.part"
        mv -- "$packed.part" "$packed"
        step_done
    fi
    cp -- "$packed" "$bundle/lib/"

    step "building kernels for every target"
    local generator targets params
    while read -r generator targets params; do
        # shellcheck disable=SC2086 # one word a parameter
        bundle_kernel "$bundle/kernels" "$generator" "$targets" $params
    done < <(bundle_kernels)
    rm -rf -- "$bundle/kernels/build"
    step_done

    cp -- tools/bundle_run.sh "$bundle/run.sh"
    cp -- tools/bundle_run.py "$bundle/run.py"
    mkdir -p -- "$bundle/bench"
    cp -- bench/*.py bench/*.txt "$bundle/bench/"
    cp -R -- schedules "$bundle/"
    local kib
    kib=$(du -sk --apparent-size -- "$bundle" | cut -f1)
    [ "$kib" -lt $((60 * 1024)) ] || die "$bundle has $((kib / 1024)) MiB; it must stay under 60"
    say "$bundle: $((kib / 1024)) MiB; copy it anywhere and start run.sh there"
}
