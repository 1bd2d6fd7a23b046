# To be sourced: one server of $binary at a time, on the free loopback port $port.
# Its process is $server, its output is appended to $log. All waits are bounded.
server=
port=$("$(dirname "${BASH_SOURCE[0]}")/../scripts/free-port.sh")

# start_server DATA-DIR [SERVER-OPTION…]
start_server() {
    # Whether this machine's disk is nearly full is not the question here.
    "$binary" start --data-dir "$1" \
        -D "bind.listeners=FLUSS://127.0.0.1:$port" -D mainstem.http.listen= \
        -D server.data-disk.write-limit-ratio=1.0 "${@:2}" \
        >>"$log" 2>&1 </dev/null &
    server=$!
    local attempt
    for ((attempt = 0; ; attempt++)); do
        if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            break
        fi
        if ! kill -0 "$server" 2>/dev/null || [ "$attempt" -ge 200 ]; then
            echo "the server does not listen on port $port" >&2
            return 1
        fi
        sleep 0.05
    done
}

# Stops it in order; status 1 if it does not stop, or not well.
stop_server() {
    local pid=$server attempt
    server=
    kill "$pid" || return 1
    for ((attempt = 0; attempt < 600; attempt++)); do
        if ! kill -0 "$pid" 2>/dev/null; then
            wait "$pid" && return
            echo "the server ended with status $?" >&2
            return 1
        fi
        sleep 0.05
    done
    echo "the server does not stop" >&2
    kill -9 "$pid" || true
    return 1
}

# For a trap at EXIT: removes $work if $passed is "yes", else says where it is.
cleanup() {
    if [ -n "$server" ] && kill -0 "$server" 2>/dev/null; then
        stop_server || true
    fi
    if [ "${passed:-}" = yes ]; then
        rm -rf "$work"
    else
        echo "the server's data and log are kept in $work; the log ends:" >&2
        tail -n 20 "$log" >&2 || true
    fi
}
