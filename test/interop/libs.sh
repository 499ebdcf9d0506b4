#!/usr/bin/env bash
# Prints the folder that holds the jars of Apache Kafka 4.4.0, fetching them with Maven the first time.
# KAFKA_LIBS names a folder that has them already.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
libs=${KAFKA_LIBS:-${XDG_CACHE_HOME:-$HOME/.cache}/ottla-interop/kafka-4.4.0}
version=$(cksum <"$here/pom.xml" | cut -d' ' -f1)
if [ "$(cat "$libs/.complete" 2>/dev/null)" != "$version" ] && [ -z "${KAFKA_LIBS:-}" ]; then
  command -v mvn >/dev/null || { echo "libs.sh: Maven is needed to fetch Apache Kafka's jars (install mvn, or set KAFKA_LIBS)" >&2; exit 1; }
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  cp "$here/pom.xml" "$work/"
  (cd "$work" && mvn -q -B dependency:copy-dependencies -DoutputDirectory="$libs" -DincludeScope=runtime) >&2
  echo "$version" >"$libs/.complete"
fi
echo "$libs"
