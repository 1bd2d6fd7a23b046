#!/usr/bin/env bash
# crash-loop.sh BINARY [--kills N] [--seed S]: writers of the official Rust
# client, of log tables and of tables with a primary key, live across kill -9 of
# the server; then all is read back, and once more after a stop and a start
# (conformance/rust/src/bin/crash_loop).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${MAINSTEM_CONFORMANCE_DIR:-$HOME/.cache/mainstem-conformance}
binary=$(realpath "$1")
shift
(cd "$here/../conformance/rust" && RUSTFLAGS='' CARGO_TARGET_DIR="$cache/target" cargo build --quiet --locked --bins)
exec "$cache/target/debug/crash_loop" "$binary" "$@"
