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
# Without certificates of authorities no crate can be downloaded.
if [ -z "${SSL_CERT_FILE:-}" ] && [ ! -s /etc/ssl/certs/ca-certificates.crt ] &&
    [ ! -s /etc/pki/tls/certs/ca-bundle.crt ] && [ ! -s /etc/ssl/cert.pem ]; then
    packages+=(ca-certificates)
fi
{ command -v cc && command -v c++; } >/dev/null || packages+=(build-essential)
# Wherever a distribution puts it: what the bindings of RocksDB are made with.
if [ -z "${LIBCLANG_PATH:-}" ] && ! compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' >/dev/null &&
    ! compgen -G '/usr/lib*/*/libclang*.so*' >/dev/null && ! compgen -G '/usr/lib*/libclang*.so*' >/dev/null; then
    packages+=(libclang-dev)
fi
if [ "$what" = test ]; then
    if ! { command -v javac && javac --version | grep -Eq ' (1[7-9]|[2-9][0-9])'; } >/dev/null 2>&1; then
        packages+=(default-jdk-headless) # 17 or later since Debian 12
    fi
    command -v mvn >/dev/null || packages+=(maven)
    # Debian has the module in a package of its own.
    python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3 python3-venv)
fi
if [ ${#packages[@]} -eq 0 ]; then
    exit 0
fi
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
