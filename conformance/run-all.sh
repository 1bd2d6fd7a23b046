#!/usr/bin/env bash
# run-all.sh BINARY [rust|python|java]…
#
# Starts the server on a free loopback port with an empty data directory and
# runs the official clients against it, all three or those named. After the Rust
# client the server is stopped and started, and its primary-key tables must be
# as they were. Ends with status 1 if a client sees a wrong value; the server's
# log is then kept.
#
# MAINSTEM_CONFORMANCE_DIR (~/.cache/mainstem-conformance) holds what is built:
# the Rust client's crates and a Python environment.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ $# -lt 1 ]; then
    sed -n '2,12p' "$0" >&2
    exit 2
fi
binary=$(realpath "$1")
shift
clients=("$@")
[ ${#clients[@]} -gt 0 ] || clients=(rust python java)
cache=${MAINSTEM_CONFORMANCE_DIR:-$HOME/.cache/mainstem-conformance}
mkdir -p "$cache"

work=$(mktemp -d)
log=$work/server.log

build_rust() {
    # Without RUSTFLAGS the crates are those that the suite of fluss-rs itself
    # builds, so both share one target directory.
    (cd "$here/rust" && RUSTFLAGS='' CARGO_TARGET_DIR="$cache/target" cargo build --quiet --locked --bins)
}
run_rust() {
    local target=$cache/target/debug
    "$target/mainstem-conformance" "$1" --keep &&
        "$target/recheck" "$1" conformance_rust "$work/tables" &&
        restart &&
        "$target/recheck" "$1" conformance_rust "$work/tables"
}

build_python() {
    local venv=$cache/python lock=$here/python/requirements.txt
    if ! cmp -s "$lock" "$venv/requirements.txt"; then
        rm -rf "$venv"
        python3 -m venv "$venv"
        # There are wheels of pyfluss up to Python 3.12: for a later one it is built.
        CARGO_TARGET_DIR="$cache/target" MATURIN_PEP517_ARGS='--profile dev' \
            "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes \
            --only-binary numpy,pandas,pyarrow,python-dateutil,tzdata -r "$lock"
        cp "$lock" "$venv/requirements.txt"
    fi
}
run_python() { PYTHONDONTWRITEBYTECODE=1 "$cache/python/bin/python" "$here/python/conformance.py" "$1"; }

build_java() { "$here/java/build.sh"; }
run_java() {
    # The client reads COMPACTED and INDEXED rows out of network buffers that it
    # has already given back to Netty's pool: without a pool they stay as they are.
    # It leaves others to the garbage collector, of which Netty would warn.
    local netty=org.apache.fluss.shaded.netty4.io.netty
    java --add-opens=java.base/java.nio=ALL-UNNAMED \
        "-D$netty.allocator.numHeapArenas=0" "-D$netty.allocator.numDirectArenas=0" \
        "-D$netty.leakDetection.level=disabled" \
        -cp "$here/java/target/classes:$(cat "$here/java/target/classpath")" mainstem.conformance.Main "$1" 2> >(grep -v '^SLF4J' >&2)
}

for client in "${clients[@]}"; do
    case $client in
        rust | python | java) "build_$client" ;;
        *)
            echo "no client is named '$client'" >&2
            exit 2
            ;;
    esac
done

. "$here/server.sh"
trap cleanup EXIT
restart() {
    stop_server && start_server "$work/data"
}
start_server "$work/data"

failed=()
for client in "${clients[@]}"; do
    printf '\n-- %s client\n' "$client"
    "run_$client" "127.0.0.1:$port" || failed+=("$client")
    if ! kill -0 "$server" 2>/dev/null; then
        echo "the server ended" >&2
        exit 1
    fi
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: ${failed[*]}" >&2
    exit 1
fi
passed=yes
printf '\nall official clients passed: %s\n' "${clients[*]}"
