#!/usr/bin/env bash
# Builds the Java programs, target/classes, and writes what they need to
# target/classpath: jars that are as checksums.sha256 has them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
mvn --color never --quiet --batch-mode compile dependency:build-classpath -Dmdep.outputFile=target/classpath
while read -r want name; do
    jar=$(tr ':' '\n' <target/classpath | grep -F "/$name")
    echo "$want  $jar" | sha256sum --check --quiet -
done <checksums.sha256
