#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The one list of Debian packages (Debian 12; Ubuntu 24.04 has the same names), and their
# installation. Sourced by demo.sh and test.sh.

# shellcheck disable=SC2034 # both lists are for the scripts that source this one
# To build and to run.
packages_build="
    ca-certificates
    cmake
    gcc
    libc6-dev
    libclblast-dev
    libjansson-dev
    libmpich-dev
    libpcre2-dev
    libutf8proc-dev
    libxxhash-dev
    mpich
    ninja-build
    ocl-icd-opencl-dev
    opencl-headers
    pkg-config
    pocl-opencl-icd
    python3
    python3-pip
"
# shellcheck disable=SC2034
# The tests besides.
packages_test="
    doxygen
    dpkg-dev
    file
    g++
    libcmocka-dev
    mandoc
    mesa-opencl-icd
    oclgrind
"

package_missing() {
    ! dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q '^install ok installed'
}

# install_packages NAME...: says what is missing, then installs just that.
install_packages() {
    missing=
    for package in "$@"; do
        if package_missing "$package"; then missing="$missing $package"; fi
    done
    if [ -z "$missing" ]; then
        echo "Nothing to install: all needed packages are there."
        return 0
    fi
    echo "Will install with apt-get:$missing"
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            echo "Cannot install: not root, and there is no sudo. Install these by hand, or use --no-install." >&2
            return 1
        fi
        as_root=sudo
    fi
    # shellcheck disable=SC2086 # words are package names
    if ! apt_install $missing; then
        # a fresh machine has no package lists, an old one stale ones
        $as_root apt-get update
        apt_install $missing
    fi
}

# Never asks: a script that stops for a time zone is not one command.
apt_install() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}
