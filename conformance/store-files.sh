#!/usr/bin/env bash
# store-files.sh BINARY
#
# RocksDB files that the server writes must be readable by the RocksDB that clients
# have, 6.20.3, with default options. For each setting of stores below, a server is
# started, a table with a primary key is filled by `mainstem upsert`, and the
# server is stopped; then the official Java client's RocksDB opens every store,
# as it is and as a snapshot would have it, and compares every entry
# (java/…/StoreFiles.java). Ends with status 1 if one cannot be read or differs; the
# data is then kept.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ $# -ne 1 ]; then
    sed -n '2,11p' "$0" >&2
    exit 2
fi
binary=$(realpath "$1")

# NAME:KIND:COMPRESSIONS as StoreFiles has them, then the options of the server.
settings=()
setting() { settings+=("$*"); }
# Buffers and files so small that there are many, on several levels.
small='writebuffer.size=64kb compaction.level.target-file-size-base=64kb compaction.level.max-size-level-base=128kb'
all() { printf 'compression.per.level=%s,%s,%s,%s,%s,%s,%s' "$1" "$1" "$1" "$1" "$1" "$1" "$1"; }
setting default:flushed:LZ4
# shellcheck disable=SC2086
{
    setting levels:merged:LZ4,ZSTD $small
    setting runs:merged:LZ4,ZSTD $small compaction.style=UNIVERSAL
    setting lz4:merged:LZ4 $small "$(all LZ4)" compaction.level.use-dynamic-size=false
    setting zstd:merged:ZSTD $small "$(all ZSTD)" compaction.style=UNIVERSAL
    setting snappy:merged:Snappy $small "$(all SNAPPY)" block.blocksize=1kb bloom-filter.bits-per-key=5.5
    setting none:merged:NoCompression $small "$(all NO)" use-bloom-filter=false
}

"$here/java/build.sh"
store_files() {
    timeout 120 java -cp "$here/java/target/classes:$(cat "$here/java/target/classpath")" \
        mainstem.conformance.StoreFiles "$@"
}

work=$(mktemp -d)
log=$work/server.log
. "$here/server.sh"
trap cleanup EXIT

# The table of StoreRows.java.
mainstem() { MAINSTEM_SERVER=127.0.0.1:$port timeout 60 "$binary" "$@"; }
create() {
    mainstem table create store.files --buckets 3 --primary-key item,shop \
        --column 'shop INT NOT NULL' --column 'item STRING NOT NULL' --column 'amount BIGINT' \
        --column 'price DECIMAL(12, 2)' --column 'weight DOUBLE' --column 'seen TIMESTAMP(6)' \
        --column 'note STRING'
}
fill() {
    local file
    for file in "$work"/rows/*.csv; do
        case $file in
            */5.csv) mainstem table alter store.files --add-column 'extra INT' ;;
        esac
        case $file in
            *.delete.csv) mainstem upsert store.files "$file" --quiet --batch-rows 300 --delete ;;
            *) mainstem upsert store.files "$file" --quiet --batch-rows 300 ;;
        esac
    done
}

mkdir "$work/rows"
store_files rows "$work/rows"
names=()
for line in "${settings[@]}"; do
    read -r -a words <<<"$line"
    names+=("${words[0]}")
    options=()
    # With memory for what changed last few files would be written.
    [ ${#words[@]} -eq 1 ] || options+=(-D mainstem.kv.recent-rows.size=0)
    for word in "${words[@]:1}"; do
        options+=(-D "kv.rocksdb.$word")
    done
    start_server "$work/stores/${words[0]%%:*}" "${options[@]}"
    { create && fill; } >>"$log" 2>&1
    stop_server
done
store_files check "$work/stores" "${names[@]}"
passed=yes
echo 'RocksDB 6.20.3 reads the files of all stores'
