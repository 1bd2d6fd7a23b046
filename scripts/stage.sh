#!/usr/bin/env bash
# stage.sh NAME COMMAND…: runs the command and says how long it took.
set -euo pipefail
name=$1
shift
printf '\n==> %s\n' "$name"
start=$SECONDS
status=0
"$@" || status=$?
if [ "$status" -eq 0 ]; then
    printf '==> %s: %d s\n' "$name" $((SECONDS - start))
else
    printf '==> %s: FAILED with status %d after %d s\n' "$name" "$status" $((SECONDS - start)) >&2
fi
exit "$status"
