#!/usr/bin/env bash
# Prints a loopback port that nothing listens on: the first argument if that is
# free, else a random one below the range that outgoing connections use.
set -euo pipefail

taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

port=${1:-$((20000 + RANDOM % 10000))}
for _ in {1..50}; do
    if ! taken "$port"; then
        echo "$port"
        exit 0
    fi
    port=$((20000 + RANDOM % 10000))
done
echo "no free port between 20000 and 30000" >&2
exit 1
