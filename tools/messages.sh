# shellcheck shell=bash
# What ./dev says: one line when a step begins, one when it ends with how long it took. Sourced by ./dev.

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
    bold=$'\e[1m' plain=$'\e[0m'
else
    bold='' plain=''
fi

say() { printf '%s== %s%s\n' "$bold" "$*" "$plain"; }

die() {
    printf 'dev: %s\n' "$@" >&2
    exit 1
}

# step TEXT: opens a step; the next step, or step_done, says how long it took.
step_name='' step_start=0
step() {
    step_done
    step_name=$* step_start=$SECONDS
    say "$*"
}

step_done() {
    [ -z "$step_name" ] || printf '   done in %s s\n' "$((SECONDS - step_start))"
    step_name=''
}

# quietly LOG COMMAND...: runs a command whose output matters only when it fails; LOG keeps it.
quietly() {
    local log=$1
    shift
    if ! "$@" >"$log" 2>&1; then
        tail -n 30 -- "$log" >&2
        die "\`$1\` failed while $step_name; the whole output is in $log"
    fi
}

jobs_here() { printf '%s' "${KILN_JOBS:-$(nproc)}"; }
