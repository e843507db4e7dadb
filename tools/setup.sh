# shellcheck shell=bash
# The set-up that every command of ./dev does first: Debian packages, then Python packages into .kiln/py.
# What is already there is neither downloaded nor asked for again. Sourced by ./dev.

KILN_PY=$KILN_ROOT/.kiln/py
KILN_LOG=$KILN_ROOT/.kiln/log

run_setup() {
    mkdir -p -- "$KILN_LOG"
    install_system_packages
    install_python_packages
    export PATH="$KILN_PY/bin:$PATH"
}

system_packages() { sed -e 's/#.*//' -e '/^ *$/d' tools/packages.txt; }

# The packages of tools/packages.txt that are not installed, one a line.
missing_packages() {
    local installed
    # dpkg-query fails when it knows nothing of a package; its list of the others still counts.
    installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null | sed -n 's/^installed //p' | sort -u)
    comm -13 <(printf '%s\n' "$installed") <(system_packages | sort -u)
}

install_system_packages() {
    [ "${KILN_SYSTEM_PACKAGES:-}" != skip ] || return 0
    local system missing
    system=$(. /etc/os-release 2>/dev/null && printf '%s %s' "${ID:-unknown}" "${VERSION_ID:-}") || system=unknown
    case $system in
    "debian 12" | "ubuntu 24.04") ;;
    *)
        die "the set-up knows Debian 12 and Ubuntu 24.04; this is \`$system\`" \
            "install the equivalents of tools/packages.txt, then run again with KILN_SYSTEM_PACKAGES=skip"
        ;;
    esac
    missing=$(missing_packages | tr '\n' ' ')
    missing=${missing% }
    [ -n "$missing" ] || return 0

    local sudo=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! sudo -n true 2>/dev/null; then
            printf 'dev: Debian packages are missing, and installing them needs root. Run this line, then ./dev again:\n\n' >&2
            printf '  sudo apt-get update && sudo apt-get install -y --no-install-recommends %s\n\n' "$missing" >&2
            exit 1
        fi
        sudo=(sudo -n)
    fi
    local environment=(env DEBIAN_FRONTEND=noninteractive)
    step "installing Debian packages: $missing"
    quietly "$KILN_LOG/apt-update.log" "${sudo[@]}" apt-get update
    # shellcheck disable=SC2086 # one word a package
    quietly "$KILN_LOG/apt-install.log" "${sudo[@]}" "${environment[@]}" \
        apt-get install -y --no-install-recommends $missing
    step_done
}

# The system's own Python first: a Python from elsewhere may lack a wheel of Halide.
find_python() {
    local candidate
    for candidate in /usr/bin/python3 python3; do
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
            printf '%s' "$candidate"
            return
        fi
    done
    die "no Python 3.9 or later with its venv module; on Debian: apt-get install python3 python3-venv"
}

# install_requirements NAME: tools/NAME.txt into .kiln/py, unless just that is there already.
install_requirements() {
    local name=$1 stamp wanted
    stamp=$KILN_PY/$name.stamp
    # A virtual environment holds absolute paths, so one that was moved or copied is made anew.
    wanted=$(printf '%s\n' "$KILN_PY" && cat -- "tools/$name.txt")
    if [ -x "$KILN_PY/bin/python" ] && [ "$(cat -- "$stamp" 2>/dev/null)" = "$wanted" ] &&
        "$KILN_PY/bin/python" -c 'pass' 2>/dev/null; then
        return 0
    fi
    step "installing Python packages into .kiln/py: $(sed -e 's/#.*//' -e '/^ *$/d' "tools/$name.txt" | tr '\n' ' ')"
    if [ "$name" = requirements ]; then
        rm -rf -- "$KILN_PY"
        quietly "$KILN_LOG/venv.log" "$(find_python)" -m venv "$KILN_PY"
    fi
    quietly "$KILN_LOG/pip-$name.log" "$KILN_PY/bin/python" -m pip install --disable-pip-version-check --no-deps \
        -r "tools/$name.txt"
    printf '%s\n' "$wanted" >"$stamp"
    step_done
}

install_python_packages() { install_requirements requirements; }

# The folder of Halide's CMake package; it depends on the version of Python, so Python is asked.
halide_folder() {
    "$KILN_PY/bin/python" -c 'import os, sysconfig; print(os.path.join(sysconfig.get_path("platlib"), "halide"))'
}
