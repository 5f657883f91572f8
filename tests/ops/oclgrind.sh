#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# oclgrind.sh OCLGRIND LOG CHECKS PROGRAM - runs an op's test in Oclgrind, which follows every access
# of every work-item: bounds always, and what CHECKS names. Oclgrind's exit code is the program's,
# whatever it found, so the log has to be empty.
#
# Kernels are built without optimisation: Oclgrind 21.10 crashes on vector shuffles with undefined
# lanes, which only optimised code has.
oclgrind=$1
log=$2
checks=$3
program=$4
rm -f "$log"
# shellcheck disable=SC2086 # several words
TPCL_TEST_DEVICE=oclgrind "$oclgrind" --build-options -cl-opt-disable $checks --max-errors 20 \
    --log "$log" "$program"
code=$?
[ -f "$log" ] || { echo "Oclgrind wrote no log: it did not run"; exit 1; }
if [ -s "$log" ]; then
    cat "$log"
    exit 1
fi
exit "$code"
