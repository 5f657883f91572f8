#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# embed.sh SOURCE: tpcl as a folder of another CMake project: it links, and nothing of tpcl's tests,
# tools, flags or install rules comes along (tests/consumer/app/CMakeLists.txt checks the flags).
# shellcheck source=tests/consumer/lib.sh
. "$(dirname -- "$0")/lib.sh"
source=$1
version=$(header_version "$source/include/tpcl")

quiet configure_app folder -DFROM=folder -DUSES=any "-DTPCL_SOURCE=$source"
quiet cmake --build "$work/folder" --target uses_layers
expect "layers from a folder" "$("$work/folder/uses_layers")" "$version 1"
ninja -C "$work/folder" -t targets all > "$work/targets"
grep -q "libtpcl_model.a:" "$work/targets" || fail "no libtpcl_model.a"
! grep -E "(^|/)(test_|tpcl_command|tpcl_bench|docs:|install:)" "$work/targets" || fail "too much"
quiet cmake --install "$work/folder" --prefix "$work/prefix"
[ ! -e "$work/prefix" ] || fail "installed with the user's project: $(find "$work/prefix" -type f)"

# Without the model: neither its target nor its libraries.
mkdir "$work/none"
cp "$(pkg-config --variable=pcfiledir libxxhash)/libxxhash.pc" "$work/none"
PKG_CONFIG_LIBDIR=$work/none quiet configure_app fetch -DFROM=fetch -DUSES=layers \
    "-DTPCL_SOURCE=$source" -DTPCL_BUILD_MODEL=OFF
quiet cmake --build "$work/fetch"
expect "layers by FetchContent" "$("$work/fetch/uses_layers")" "$version 1"
[ -z "$(find "$work/fetch" -name "libtpcl_model*")" ] || fail "TPCL_BUILD_MODEL=OFF builds the model"
echo "tpcl works inside another project"
