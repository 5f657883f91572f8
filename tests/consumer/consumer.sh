#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# consumer.sh BUILD SOURCE: installs BUILD to a prefix, moves that, and uses it as others do: with
# CMake and pkg-config, from C and C++, layers alone and whole models; then the examples, whose
# output is in examples/README.md.
# shellcheck source=tests/consumer/lib.sh
. "$(dirname -- "$0")/lib.sh"
build=$1
source=$2

quiet cmake --install "$build" --prefix "$work/first"
mv "$work/first" "$work/moved"
prefix=$work/moved
pc=$(dirname "$(find "$prefix" -name tpcl-model.pc)")
version=$(header_version "$prefix/include/tpcl")
package="-DFROM=package -DCMAKE_PREFIX_PATH=$prefix"
flags() { PKG_CONFIG_PATH=$pc pkg-config "$@"; }

# One version: header, .pc files, CMake package, program.
for name in tpcl tpcl-model; do
    expect "version of $name.pc" "$(flags --modversion $name)" "$version"
done
expect "tpcl --version" "$("$prefix/bin/tpcl" --version | sed -n 's/^tpcl \([^ ]*\) .*/\1/p')" \
    "$version"
# shellcheck disable=SC2086 # options
configure_app any $package -DUSES=any "-DVERSION=${version%.*}" || { cat "$work/log"; exit 1; }
expect "tpcl_VERSION" "$(sed -n 's/^-- version //p' "$work/log")" "$version"
# shellcheck disable=SC2086
configure_app later $package -DUSES=any -DVERSION=99.0 && fail "version 99.0 was found"

# CMake: C, then a project without C.
quiet cmake --build "$work/any"
expect "layers by CMake" "$("$work/any/uses_layers")" "$version 1"
expect "model by CMake" "$("$work/any/uses_model" "$source/tests/golden/tiny-qwen3")" opened
# shellcheck disable=SC2086
quiet configure_app cxx $package -DUSES=layers -DLANGUAGE=CXX
quiet cmake --build "$work/cxx"
expect "layers by CMake in C++" "$("$work/cxx/uses_layers")" "$version 1"

# tpcl/opencl.h includes CL/cl.h: whoever links tpcl::tpcl gets its folder, too.
! grep -q 'LINK_ONLY:OpenCL' "$(find "$prefix" -name tpclTargets.cmake)" || fail "no folder of CL/cl.h in tpcl::tpcl"
case $(flags --print-requires tpcl) in
*OpenCL*) ;;
*) fail "tpcl.pc does not ask for OpenCL" ;;
esac

# A tpcl built with another MPI than the one that is found is refused: their headers differ.
cp -r "$prefix" "$work/foreign"
config=$(find "$work/foreign" -name tpclConfig.cmake)
sed -i 's/"MPICH"/"Open MPI"/; t; s/"Open MPI"/"MPICH"/' "$config"
configure_app foreign -DFROM=package "-DCMAKE_PREFIX_PATH=$work/foreign" -DUSES=any &&
    fail "two MPIs were mixed"
grep -q "tpcl was built with .* but find_package(MPI) found" "$work/log" ||
    { cat "$work/log"; fail "no word of the two MPIs"; }

# The layers alone need nothing of the model's libraries, at configure, compile and link.
mkdir "$work/none"
# shellcheck disable=SC2086
PKG_CONFIG_LIBDIR=$work/none configure_app layers $package -DUSES=any ||
    { cat "$work/log"; fail "the layers need the model's libraries"; }
grep -q "without tpcl::model.*jansson, pcre2, utf8proc" "$work/log" ||
    { cat "$work/log"; fail "no word of the missing libraries"; }
quiet cmake --build "$work/layers"
[ ! -e "$work/layers/uses_model" ] || fail "a model was linked without its libraries"
# shellcheck disable=SC2086
PKG_CONFIG_LIBDIR=$work/none configure_app model $package -DUSES=model && fail "model was found"
tr -s '\n ' ' ' < "$work/log" | grep -q "component model .* not found: jansson, pcre2, utf8proc" ||
    { cat "$work/log"; fail "no word of what the model needs"; }
# shellcheck disable=SC2086
configure_app other $package -DUSES=serving && fail "component serving was found"

# pkg-config
case $(flags --libs tpcl) in
*jansson* | *pcre2* | *utf8proc*) fail "tpcl.pc asks for the model's libraries" ;;
esac
# shellcheck disable=SC2046 # flags
quiet cc "$app/layers.c" -o "$work/layers_pc" $(flags --cflags --libs tpcl)
# shellcheck disable=SC2046
quiet c++ -std=c++17 "$app/layers.cpp" -o "$work/layers_pc_cxx" $(flags --cflags --libs tpcl)
# shellcheck disable=SC2046
quiet cc "$app/model.c" -o "$work/model_pc" $(flags --cflags --libs tpcl-model)
# shellcheck disable=SC2046
quiet cc "$app/model.c" -o "$work/model_static" $(flags --cflags --libs --static tpcl-model)
expect "layers by pkg-config" "$("$work/layers_pc")" "$version 1"
expect "layers by pkg-config in C++" "$("$work/layers_pc_cxx")" "$version 1"
expect "model by pkg-config" "$("$work/model_pc" "$source/tests/golden/tiny-qwen3")" opened
for program in "$work/layers_pc" "$work/layers/uses_layers"; do
    for library in jansson pcre2 utf8proc; do
        ! links "$program" $library || fail "$program needs $library"
    done
done

# The examples print what their README says.
quiet cmake -G Ninja -S "$source/examples" -B "$work/examples" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_BUILD_TYPE=Release "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror" \
    "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Werror"
quiet cmake --build "$work/examples"
ln -s "$source/tests/golden/tiny-qwen3" "$work/examples/tiny-qwen3"
python3 "$(dirname -- "$0")/readme.py" "$source/examples/README.md" "$work/examples"

# A failure is a message that names its cause and an exit status, on all ranks and in time.
if timeout 60 mpiexec -n 2 "$work/examples/load_and_generate" "$work/no-model" 1 > "$work/log" 2>&1; then
    fail "load_and_generate opened a model that is not there"
elif [ $? -eq 124 ] || ! grep -q "^load_and_generate: .*$work/no-model" "$work/log"; then
    cat "$work/log"
    fail "load_and_generate did not name the file that is not there"
fi
echo "the installed package works"
