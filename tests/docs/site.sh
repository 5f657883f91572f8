#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# site.sh BUILD SOURCE: the target docs builds without a warning, and what it builds holds together.
set -eu
rm -rf "$1/docs/html"
cmake --build "$1" --target docs
python3 "$(dirname -- "$0")/site.py" "$1/docs/html" "$2/include/tpcl"
