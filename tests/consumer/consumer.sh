#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# consumer.sh BUILD SOURCE: installs BUILD to a prefix of its own, moves that, builds the examples
# against it with CMake and one of them with pkg-config, and checks what they print.
set -eu
build=$1
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/first" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
mv "$work/first" "$work/moved"
cmake -G Ninja -S "$source/examples" -B "$work/examples" -DCMAKE_PREFIX_PATH="$work/moved" \
    -DCMAKE_BUILD_TYPE=Release > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --build "$work/examples" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }

expect() { # expect WHAT GOT WANTED
    [ "$2" = "$3" ] && return
    printf '%s printed\n%s\nexpected\n%s\n' "$1" "$2" "$3"
    exit 1
}
expect "vocab_parallel" "$(mpiexec -n 2 "$work/examples/vocab_parallel")" \
    "rank 0 contributes [[3, 4], [0, 0]]
rank 1 contributes [[0, 0], [7, 8]]
rank 0 has the sum [[3, 4], [7, 8]]
rank 1 has the sum [[3, 4], [7, 8]]"

one=$("$work/examples/load_and_generate" "$source/tests/golden/tiny-qwen3" 1 2 3)
two=$(mpiexec -n 2 "$work/examples/load_and_generate" "$source/tests/golden/tiny-qwen3" 1 2 3)
expect "load_and_generate on two ranks" "$two" "$one"
[ "$(printf '%s\n' "$one" | wc -w)" -eq 16 ] || { echo "16 ids expected: $one"; exit 1; }

pc=$(dirname "$(find "$work/moved" -name tpcl-model.pc)")
# shellcheck disable=SC2046 # flags
cc "$source/examples/load_and_generate.c" -o "$work/by_pkg_config" \
    $(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs tpcl-model)
expect "load_and_generate by pkg-config" \
    "$("$work/by_pkg_config" "$source/tests/golden/tiny-qwen3" 1 2 3)" "$one"

# Every public header compiles alone.
for header in "$work"/moved/include/tpcl/*.h; do
    printf '#include <tpcl/%s>\n' "$(basename "$header")" > "$work/alone.c"
    # shellcheck disable=SC2046
    cc -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only "$work/alone.c" \
        $(PKG_CONFIG_PATH=$pc pkg-config --cflags tpcl-model)
done
echo "the installed package works"
