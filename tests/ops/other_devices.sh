#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# other_devices.sh PROGRAM - runs an op's test on every OpenCL device after the default one.
# Exit code 77 (skipped) where there is no other device.
program=$1
ran=0
index=1
while [ "$index" -lt 16 ]; do
    output=$(TPCL_TEST_DEVICE=$index TPCL_TEST_OPTIONAL=1 "$program" 2>&1)
    code=$?
    case $output in *"does not exist"*) break ;; esac
    echo "device $index: exit code $code"
    if [ "$code" -ne 77 ]; then # 77: the device has no compiler, the next one may have
        ran=$((ran + 1))
        [ "$code" -eq 0 ] || { echo "$output"; exit 1; }
    fi
    index=$((index + 1))
done
[ "$ran" -gt 0 ] || exit 77
