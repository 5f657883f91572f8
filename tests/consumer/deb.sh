#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# deb.sh BUILD SOURCE: makes the Debian packages of BUILD, checks what is in them, and uses an
# unpacked libtpcl-dev by CMake and by pkg-config.
command -v dpkg-deb > /dev/null || { echo "no dpkg-deb here: skipped"; exit 77; }
# shellcheck source=tests/consumer/lib.sh
. "$(dirname -- "$0")/lib.sh"
build=$1
source=$2
version=$(header_version "$source/include/tpcl")

quiet cpack -G DEB --config "$build/CPackConfig.cmake" -B "$work/packages"
arch=$(dpkg --print-architecture)
devel=$work/packages/libtpcl-dev_$version-1_$arch.deb
tools=$work/packages/tpcl_$version-1_$arch.deb

has_field() { # has_field DEB FIELD PATTERN
    dpkg-deb --field "$1" "$2" | grep -Eq "$3" ||
        fail "$(basename "$1"): $2 is '$(dpkg-deb --field "$1" "$2")', without '$3'"
}
for deb in "$devel" "$tools"; do
    [ -e "$deb" ] || fail "no $deb among $(ls "$work/packages")"
    has_field "$deb" Version "^$version-1\$"
    has_field "$deb" Architecture "^$arch\$"
    has_field "$deb" Maintainer "^[^<]+ <[^@]+@[^>]+>\$"
    has_field "$deb" Description "^[^ ].{10,79}\$"
    name=$(dpkg-deb --field "$deb" Package)
    dpkg-deb -x "$deb" "$work/$name"
    doc=$work/$name/usr/share/doc/$name
    head -n 1 "$doc/copyright" | grep -q "^Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\$" ||
        fail "$name: the copyright file has no DEP-5 header"
    gzip -dc "$doc/changelog.Debian.gz" | head -n 1 | grep -q "^tpcl ($version-1) " ||
        fail "$name: changelog.Debian.gz is of another version"
    gzip -dc "$doc/changelog.gz" | cmp - "$source/CHANGELOG.md" || fail "$name: changelog.gz"
    ! grep -rIl -e "$source" -e "$build" "$work/$name" || fail "$name names folders of this machine"
    [ -z "$(find "$work/$name" -perm /022 ! -type l)" ] || fail "$name: files that all may write"
done
expect "files of the packages" "$(cd "$work" && find libtpcl-dev tpcl -path '*/bin/*' -o -name '*.a' |
    sed 's,/lib/.*/,/lib/,' | sort)" "libtpcl-dev/usr/lib/libtpcl.a
libtpcl-dev/usr/lib/libtpcl_model.a
tpcl/usr/bin/tpcl
tpcl/usr/bin/tpcl-bench"
for file in include/tpcl/tpcl.h share/doc/libtpcl-dev/README.md share/doc/libtpcl-dev/cl/README.md \
    share/doc/libtpcl-dev/examples/CMakeLists.txt share/doc/libtpcl-dev/examples/vocab_parallel.c; do
    [ -s "$work/libtpcl-dev/usr/$file" ] || fail "libtpcl-dev: no $file"
done

for file in libtpcl-dev/usr/share/man/man7/tpcl.7.gz tpcl/usr/share/man/man1/tpcl.1.gz \
    tpcl/usr/share/man/man1/tpcl-run.1.gz tpcl/usr/share/man/man1/tpcl-bench.1.gz; do
    gzip -dc "$work/$file" | grep -q '^\.TH TPCL' || fail "no page in $file"
done

has_field "$devel" Section "^libdevel\$"
for package in libclblast-dev libjansson-dev "(libmpich|libopenmpi)-dev" libpcre2-dev \
    libutf8proc-dev ocl-icd-opencl-dev pkgconf; do
    has_field "$devel" Depends "(^|, )$package([ ,]|\$)"
done
# The names of shared libraries' packages end in numbers that differ between releases.
for package in libc6 libclblast libjansson libpcre2-8- libutf8proc "(libmpich|libopenmpi)" \
    "(mpich|openmpi-bin)(, |\$)"; do
    has_field "$tools" Depends "(^|, )$package"
done
expect "the packaged program" "$("$work/tpcl/usr/bin/tpcl" --version | head -n 1 | cut -d ' ' -f 2)" \
    "$version"

# Unpacked anywhere, the package builds programs.
prefix=$work/libtpcl-dev/usr
pc=$(dirname "$(find "$prefix" -name tpcl.pc)")
quiet configure_app cmake -DFROM=package "-DCMAKE_PREFIX_PATH=$prefix" -DUSES=any
quiet cmake --build "$work/cmake"
expect "layers by CMake" "$("$work/cmake/uses_layers")" "$version 1"
expect "model by CMake" "$("$work/cmake/uses_model" "$source/tests/golden/tiny-qwen3")" opened
# shellcheck disable=SC2046 # flags
quiet cc "$app/layers.c" -o "$work/layers_pc" \
    $(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs tpcl)
expect "layers by pkg-config" "$("$work/layers_pc")" "$version 1"

# What they depend on exists, where apt knows any package at all.
if apt-cache show libmpich-dev > /dev/null 2>&1; then
    quiet apt-get install --simulate "$devel" "$tools"
else
    echo "apt has no package lists here: dependencies are not resolved"
fi
echo "the Debian packages work"
