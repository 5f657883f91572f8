/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include <stdio.h>
#include <string.h>

#include "files.h"
#include "options.h"

const char bench_arguments[] = "[CASE [SHAPE]]... [OPTION]...";

const char bench_what[] =
    "Checks each case against its reference, then times it. CASE is a name or its beginning;\n"
    "SHAPE (as 1x576x1536) runs that case at that shape only. Without CASE: all of them.\n"
    "Under mpiexec every rank runs every row on its own device, at the same time, and the\n"
    "slowest one counts.\n"
    "The words pp256, tg128 and @d4096 are prompts and generation of a model with synthetic\n"
    "weights, and the depth of the word before. A LIST is 1,256 or 1-8 or 0-100+25 or 4-64M*4.\n"
    "tpcl-bench report FILE... [--out FILE] [--plot DIR] makes one page (report.html) of csv and\n"
    "jsonl files of several runs, and SVG files: roofline, speed-up over ranks, collectives.\n";

const char bench_columns[] =
    "Columns (version 2): case, shape, dtype, ranks, verdict, max_err, wrong, reps, min_us,\n"
    "median_us, p90_us, mean_us, sd_us, gbps, busbw, gflops, tps, tps_sd, stage_out_us,\n"
    "exchange_us, stage_in_us, peer, peer_us, ratio, repro, device, driver, git. What does not\n"
    "apply is empty, or null in jsonl; a table leaves some out. gbench is the JSON of Google\n"
    "Benchmark, for its compare.py; osu the two columns of the OSU micro-benchmarks, for\n"
    "collectives.\n"
    "A sample is the mean of a batch of runs of about 2 ms; the clock stops when the queue is\n"
    "drained. Rates are of the traffic and arithmetic that cannot be avoided, for one rank.\n"
    "peer and ratio: clblast:time and MPI_Allreduce:time divide the peer's median by ours;\n"
    "read:GB/s divides our rate by the best rate at which this device read a gigabyte.\n"
    "Either way more than 1 is better than the peer. Both are timed in turn, in one process.\n"
    "Weights and caches lie there often enough to be read from memory.\n"
    "Collectives: gbps is the message by the time, busbw that times 2(n-1)/n for a sum and\n"
    "(n-1)/n for a gather, wrong the elements that differ, as nccl-tests define them.\n";

const char bench_examples[] =
    "  tpcl-bench\n"
    "  tpcl-bench ops/linear --shape qwen3-0.6b --dtype bf16,q4_0 --tokens 1-64*2,256\n"
    "  tpcl-bench ops/linear 1x576x1536 --dtype q4_1 --reps 100 --format csv\n"
    "  tpcl-bench pp256 tg128@d0,4096 --shape llama-3.2-1b --dtype q4_0 --batch 1-64*4\n"
    "  mpiexec -n 2 tpcl-bench collectives --bytes 4-64M*4 --format jsonl\n"
    "  tpcl-bench report before.csv after.jsonl --out report.html\n";

const struct bench_code bench_codes[] = {
    {0, "every row passed"},
    {1, "a result was wrong, or slower than --baseline has it"},
    {64, "usage"},
    {65, "a damaged file of shapes or results, or a shape that a case cannot have"},
    {66, "a file that cannot be opened"},
    {69, "no usable OpenCL device"},
    {70, "an OpenCL call failed"},
    {71, "out of memory"},
    {73, "a page or plot that cannot be made"},
    {74, "the output could not be written"},
    {75, "a rank was lost or did not answer in time"},
    {76, "the ranks have different command lines"},
};
const size_t bench_code_count = sizeof bench_codes / sizeof bench_codes[0];

static void put_option(const struct bench_option_row *row)
{
    char left[60];
    snprintf(left, sizeof left, "%c%c%s --%s%s%s", row->letter ? '-' : ' ',
             row->letter ? row->code : ' ', row->letter ? "," : " ", row->name,
             row->argument ? " " : "", row->argument ? row->argument : "");
    if (printf("  %-22s", left) > 24) printf("\n%24s", "");
    printf("%s\n", row->help);
    if (strcmp(row->name, "shape") == 0) printf("%24s%s\n", "", bench_shape_names);
    if (row->fallback) printf("%24s(default: %s)\n", "", row->fallback);
}

void bench_help_print(void)
{
    printf("Usage: tpcl-bench %s\n\n%s\nOptions:\n", bench_arguments, bench_what);
    for (size_t i = 0; i < bench_option_count; i++) put_option(&bench_option_table[i]);
    printf("\n%s\nExamples:\n%s\nExit codes:\n", bench_columns, bench_examples);
    for (size_t i = 0; i < bench_code_count; i++)
        printf("  %3d  %s\n", bench_codes[i].code, bench_codes[i].meaning);
}
