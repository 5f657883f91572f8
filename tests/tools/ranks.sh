#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Bad input on several ranks: the whole job ends with one code and one line, that of the lowest rank
# that failed.
. "$(dirname -- "$0")/lib.sh"
model=$GOLDEN/tiny-qwen3-tied
rank='\[%s/%s@[^]]+\]: '

# all N CODE PATTERN ARGUMENT...: the same command line on N ranks; rank 0 speaks.
all() {
    n=$1 wanted=$2 pattern=$3
    shift 3
    quick "$MPIEXEC" -n "$n" "$TPCL" "$@"
    # shellcheck disable=SC2059
    refused "$wanted" "^tpcl$(printf "$rank" 0 "$n")$pattern"
    check "nothing on stdout" test ! -s "$out"
}

for n in 2 3; do
    all $n 64 'tp=4 but '$n' ranks' run "$model" -p x --tp 4
    all $n 64 'tp=1 but '$n' ranks' run "$model" -p x --tp 1
    all $n 66 '/nonexistent' run /nonexistent -p x
done
all 2 64 'unknown or ambiguous option --nonsense' run "$model" --nonsense
all 2 64 "--seed: 'x'" run "$model" -p x --seed x
all 2 64 'no MODEL' score
all 2 64 'the prompt is empty' run "$model" --ids '[]'
all 2 64 'token id 99999 .*outside the vocabulary' run "$model" --ids 99999
all 2 64 'the prompt has 5 tokens, the context 4' run "$model" --ids 1,2,3,4,5 --ctx 4
all 2 66 '--file /nonexistent' run "$model" -f /nonexistent
all 2 69 '.*7' run "$model" -p x --device 7
all 2 73 '--out /nonexistent/x' score "$model" --ids 1 --out /nonexistent/x
mkdir "$work/none"
quick env OCL_ICD_VENDORS="$work/none/" "$MPIEXEC" -n 2 "$TPCL" run "$model" -p x
refused 69 '^tpcl\[0/2@.*no (usable )?OpenCL device'
# Without a rank of its own to speak of, a command that is no command is refused by rank 0.
quick "$MPIEXEC" -n 2 "$TPCL" sing
refused 64 "no such command: 'sing'"
quick "$TPCL" run "$model" -p x --tp 2 --device 7
refused 69 '^tpcl\[0/2@'
quick "$TPCL" run /nonexistent -p x --tp 3
refused 66 '^tpcl\[0/3@.*/nonexistent'
quick env TPCL_MPIEXEC=/nonexistent/mpiexec "$TPCL" run "$model" -p x --tp 2
refused 66 'cannot start /nonexistent/mpiexec'

# One rank of several, which is not rank 0.
one() {
    wanted=$1 pattern=$2
    shift 2
    quick "$MPIEXEC" -n 1 "$TPCL" run "$model" --ids 1,2 -n 4 : -n 1 "$TPCL" "$@"
    # shellcheck disable=SC2059
    refused "$wanted" "^tpcl$(printf "$rank" 1 2)$pattern"
}
one 66 '/nonexistent' run /nonexistent --ids 1,2 -n 4
one 64 "--seed: 'x'" run "$model" --ids 1,2 -n 4 --seed x
one 64 'unknown or ambiguous option --what' run "$model" --ids 1,2 -n 4 --what
one 64 'tp=3 but 2 ranks' run "$model" --ids 1,2 -n 4 --tp 3
one 69 '.*7' run "$model" --ids 1,2 -n 4 --device 7
mkdir "$work/cut"
cp -r "$model/." "$work/cut"
head -c 3000 "$model/model.safetensors" >"$work/cut/model.safetensors"
one 65 '.*model.safetensors' run "$work/cut" --ids 1,2 -n 4

# Two that fail in different ways: the lowest gives line and code.
quick "$MPIEXEC" -n 1 "$TPCL" run "$model" --ids 1 : -n 1 "$TPCL" run "$work/cut" --ids 1 : \
    -n 1 "$TPCL" run /nonexistent --ids 1
refused 65 '^tpcl\[1/3@.*model.safetensors'

# Ranks that were told different things.
quick "$MPIEXEC" -n 1 "$TPCL" run "$model" -p x --seed 1 : -n 2 "$TPCL" run "$model" -p x --seed 2
refused 76 '^tpcl\[0/3@.*ranks disagree on --seed: 1 on rank 0, 2 on rank 1 2; start'
quick "$MPIEXEC" -n 1 "$TPCL" run "$model" -p x --temp 1 --kv f32 : -n 1 "$TPCL" run "$model" -p x
refused 76 'disagree on --temp: 1 on rank 0, 0 on rank 1; --kv: f32 on rank 0, f16 on rank 1'
quick "$MPIEXEC" -n 1 "$TPCL" run "$model" --ids 1 : -n 1 "$TPCL" score "$model" --ids 1 --out "$work/x"
refused 76 'the command: run on rank 0, score on rank 1'
quick "$MPIEXEC" -n 1 "$TPCL" run "$model" --ids 1 : -n 1 "$TPCL" run "$GOLDEN/tiny-llama" --ids 1
refused 76 'ranks disagree on the model'

