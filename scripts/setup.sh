#!/usr/bin/env bash
# setup.sh demo|test: installs what is missing on a Debian machine. A demo needs
# Rust, a C++ compiler and libclang, with which RocksDB is built; the tests also run
# the official Python and Java clients.
set -euo pipefail

what=${1:-test}
if ! command -v cargo >/dev/null; then
    echo "Rust is missing: install the toolchain from https://rustup.rs (1.95 or later), then try again" >&2
    exit 1
fi

packages=()
found() {
    local file
    for file in "$@"; do
        if [ -s "$file" ]; then
            return 0
        fi
    done
    return 1
}
# No crate can be downloaded without.
found_certificates() {
    found "${SSL_CERT_FILE:-}" /etc/ssl/certs/ca-certificates.crt /etc/ssl/cert.pem \
        /etc/ssl/ca-bundle.pem /etc/pki/tls/certs/ca-bundle.crt
}
# What the bindings of RocksDB are made with, wherever a distribution puts it. The
# library alone, which some programs bring along, lacks the compiler's own headers.
found_libclang() {
    found /usr/lib{/llvm-*/lib,*/*,*}/libclang{,-[0-9]*}.so* &&
        found /usr/lib*/{,llvm*/lib*/}clang/*/include/stddef.h
}
found_certificates || packages+=(ca-certificates)
{ command -v cc && command -v c++; } >/dev/null || packages+=(build-essential)
[ -n "${LIBCLANG_PATH:-}" ] || found_libclang || packages+=(libclang-dev)
if [ "$what" = test ]; then
    if ! { command -v javac && javac --version | grep -Eq ' (1[7-9]|[2-9][0-9])'; } >/dev/null 2>&1; then
        packages+=(default-jdk-headless) # 17 or later since Debian 12
    fi
    command -v mvn >/dev/null || packages+=(maven)
    # Debian has the module in a package of its own.
    python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3 python3-venv)
fi

if [ ${#packages[@]} -gt 0 ]; then
    sudo=()
    if [ "$(id -u)" -ne 0 ]; then
        sudo=(sudo)
    fi
    if ! command -v apt-get >/dev/null || { [ ${#sudo[@]} -gt 0 ] && ! command -v sudo >/dev/null; }; then
        echo "please install: ${packages[*]}" >&2
        exit 1
    fi
    echo "installing ${packages[*]}"
    "${sudo[@]}" apt-get update -qq
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
fi

# rustup's minimal profile, which container images have, leaves these out.
if [ "$what" = test ] && ! { cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1; then
    echo 'installing rustfmt and clippy'
    rustup --quiet component add rustfmt clippy
fi
