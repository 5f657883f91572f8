#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what the tests need, builds, and runs every test. Ends with 0 only if tests ran and all
# of them passed.
set -eu

usage="Usage: scripts/test.sh [--no-install]

Installs what is missing with apt-get (--no-install: nothing), builds in build/dev and runs all
tests. The tests with a real model run where it can be fetched."

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
install=yes
for word in "$@"; do
    case $word in
    --no-install) install=no ;;
    -h | --help) echo "$usage"; exit 0 ;;
    *) echo "scripts/test.sh: no such option: $word" >&2; exit 64 ;;
    esac
done

# shellcheck source=scripts/packages.sh
. "$root/scripts/packages.sh"
if [ $install = yes ]; then
    # shellcheck disable=SC2086 # lists of names
    install_packages $packages_build $packages_test
fi

if "$root/scripts/fetch-model.sh"; then
    echo "The tests with the real model will run."
else
    echo "The tests with the real model will be skipped; all others run."
fi

cd "$root"
cmake --preset dev
cmake --build --preset dev
ctest --preset dev --output-on-failure --no-tests=error
