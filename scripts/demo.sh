#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# From a fresh Debian 12 or Ubuntu 24.04 machine to a model that answers, on two MPI ranks.
set -eu

usage="Usage: scripts/demo.sh [--no-install] [PROMPT]

Installs what is missing with apt-get (--no-install: nothing), builds tpcl, fetches a small model and
lets two ranks answer PROMPT (default: What is gravity?)."

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
install=yes
prompt="What is gravity?"
for word in "$@"; do
    case $word in
    --no-install) install=no ;;
    -h | --help) echo "$usage"; exit 0 ;;
    -*) echo "scripts/demo.sh: no such option: $word" >&2; exit 64 ;;
    *) prompt=$word ;;
    esac
done

# shellcheck source=scripts/packages.sh
. "$root/scripts/packages.sh"
if [ $install = yes ]; then
    # shellcheck disable=SC2086 # a list of names
    install_packages $packages_build
fi

echo "Building in build/demo ..."
cmake -S "$root" -B "$root/build/demo" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DTPCL_BUILD_TESTS=OFF -DTPCL_BUILD_BENCH=OFF
cmake --build "$root/build/demo" --target tpcl_command
PATH=$root/build/demo/tools:$PATH
export PATH

# Under a launcher no rank sees the terminal; this tells tpcl that there is one.
terminal=0
if [ -t 2 ]; then terminal=1; fi
if [ -t 1 ]; then terminal=$((terminal + 2)); fi
export TPCL_TTY=$terminal

if model=$("$root/scripts/fetch-model.sh"); then
    echo "Running: mpiexec -n 2 tpcl run $model -p '$prompt'"
    exec mpiexec -n 2 tpcl run "$model" -p "$prompt"
fi
model=$root/tests/golden/tiny-qwen3-tied
echo "Without the package index there is only the tiny checkpoint of the tests. Its weights are
random, so what it says means nothing; it shows that everything works."
echo "Running: mpiexec -n 2 tpcl run $model -n 24 -p '$prompt'"
exec mpiexec -n 2 tpcl run "$model" -n 24 -p "$prompt"
