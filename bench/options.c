/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <ctype.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>

#include "files.h"

enum { LIST_MAX = 512, SIZE_LIMIT = 1 << 30 };
#define DEFAULT_SHAPE "smollm2-135m"

struct parser {
    struct bench_settings *s;
    char *message;
    size_t size;
};

static int refuse(const struct parser *p, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int refuse(const struct parser *p, int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(p->message, p->size, fmt, args);
    va_end(args);
    return code;
}

void bench_dtype_text(tpcl_dtype dtype, char out[8])
{
    snprintf(out, 8, "%s", tpcl_dtype_name(dtype));
    for (char *c = out; *c; c++) *c = (char)tolower((unsigned char)*c);
}

/* "17x576" and the like: it begins with a digit, as no case does. */
static int take_shape(const struct parser *p, const char *text)
{
    struct bench_settings *s = p->s;
    char copy[LIST_MAX], *rest = copy;
    if (s->n_selections == 0 || s->selections[s->n_selections - 1].dims > 0)
        return refuse(p, EX_USAGE, "the shape %.60s does not follow a case", text);
    struct bench_selection *to = &s->selections[s->n_selections - 1];
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word; (word = strsep(&rest, "x"));)
        if (to->dims == BENCH_DIMS || !parse_long(word, 1, SIZE_LIMIT, &to->shape[to->dims++]))
            return refuse(p, EX_USAGE,
                          "'%.60s' is not a shape: up to %d sizes from 1 to %d, as in 1x576x1536",
                          text, BENCH_DIMS, SIZE_LIMIT);
    return 0;
}

static int take_operand(const struct parser *p, const char *text)
{
    struct bench_settings *s = p->s;
    if (isdigit((unsigned char)*text)) return take_shape(p, text);
    if (s->n_selections == BENCH_SELECTIONS)
        return refuse(p, EX_USAGE, "more than %d cases", BENCH_SELECTIONS);
    s->selections[s->n_selections++] = (struct bench_selection){.name = text};
    return 0;
}

static int take_tokens(const struct parser *p, const char *text)
{
    char copy[LIST_MAX], *rest = copy;
    p->s->n_tokens = 0;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word; (word = strsep(&rest, ","));)
        if (p->s->n_tokens == BENCH_TOKENS ||
            !parse_long(word, 1, 1 << 20, &p->s->tokens[p->s->n_tokens++]))
            return refuse(p, EX_USAGE,
                          "--tokens: '%.60s' is not a list of up to %d sizes from 1 to %d", text,
                          BENCH_TOKENS, 1 << 20);
    return 0;
}

static bool find_dtype(const char *name, unsigned *bit)
{
    for (int d = 0; BENCH_WEIGHTS >> d; d++) {
        *bit = BENCH_DTYPE(d);
        if (*bit & BENCH_WEIGHTS && strcasecmp(name, tpcl_dtype_name((tpcl_dtype)d)) == 0)
            return true;
    }
    return false;
}

static int take_dtypes(const struct parser *p, const char *text)
{
    char copy[LIST_MAX], *rest = copy;
    p->s->dtypes = 0;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word; (word = strsep(&rest, ","));) {
        unsigned bit = 0;
        if (!find_dtype(word, &bit))
            return refuse(
                p, EX_USAGE,
                "--dtype: '%.60s' is not a type; there are f32, f16, bf16, q8_0, q4_0, q4_1", word);
        p->s->dtypes |= bit;
    }
    return 0;
}

static int take_format(const struct parser *p, const char *text)
{
    static const char *const names[] = {"table", "csv", "jsonl"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, names[i]) != 0) continue;
        p->s->format = (enum bench_format)i;
        return 0;
    }
    return refuse(p, EX_USAGE, "--format: '%.60s' is not one of table, csv, jsonl", text);
}

static int take_reps(const struct parser *p, const char *text)
{
    long reps = 0;
    if (!parse_long(text, 1, BENCH_REPS_MAX, &reps))
        return refuse(p, EX_USAGE, "--reps: '%.60s' is not a number from 1 to %d", text,
                      BENCH_REPS_MAX);
    p->s->reps = (int)reps;
    return 0;
}

static int take_model(const struct parser *p, const char *name)
{
    FILE *file = NULL;
    if (shapes_load(name, &p->s->model, p->message, p->size)) return 0;
    file = fopen(name, "re");
    if (!file) return EX_NOINPUT;
    fclose(file);
    return EX_DATAERR;
}

static int take_option(const struct parser *p, int letter, char **argv)
{
    switch (letter) {
    case 's':
        return take_model(p, optarg);
    case 'd':
        return take_dtypes(p, optarg);
    case 't':
        return take_tokens(p, optarg);
    case 'n':
        return take_reps(p, optarg);
    case 'v':
        p->s->device = optarg;
        return 0;
    case 'f':
        return take_format(p, optarg);
    case 'l':
        p->s->list = true;
        return 0;
    case 'h':
        p->s->help = true;
        return 0;
    case 'V':
        p->s->version = true;
        return 0;
    case ':':
        return refuse(p, EX_USAGE, "%.60s needs a value (see tpcl-bench --help)", argv[optind - 1]);
    default:
        return refuse(p, EX_USAGE, "no such option: %.60s (see tpcl-bench --help)",
                      argv[optind - 1]);
    }
}

int bench_options_parse(struct bench_settings *s, int argc, char **argv, char *message, size_t size)
{
    static const struct option options[] = {
        {"shape", required_argument, NULL, 's'},  {"dtype", required_argument, NULL, 'd'},
        {"tokens", required_argument, NULL, 't'}, {"reps", required_argument, NULL, 'n'},
        {"device", required_argument, NULL, 'v'}, {"format", required_argument, NULL, 'f'},
        {"list", no_argument, NULL, 'l'},         {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},      {0},
    };
    const struct parser p = {s, message, size};
    *s = (struct bench_settings){
        .tokens = {1, 256}, .n_tokens = 2, .dtypes = BENCH_WEIGHTS, .reps = 20};
    int code = take_model(&p, DEFAULT_SHAPE);
    optind = 0; /* starts getopt over */
    opterr = 0;
    for (int letter; !code && (letter = getopt_long(argc, argv, "-:hV", options, NULL)) != -1;)
        code = letter == 1 ? take_operand(&p, optarg) : take_option(&p, letter, argv);
    while (!code && optind < argc) code = take_operand(&p, argv[optind++]);
    return code;
}

void bench_help_print(void)
{
    printf(
        "Usage: tpcl-bench [CASE [SHAPE]]... [OPTION]...\n\n"
        "Checks each case against its reference, then times it. CASE is a name or its beginning;\n"
        "SHAPE (as 1x576x1536) runs that case at that shape only. Without CASE: all of them.\n"
        "Under mpiexec every rank runs every row on its own device, at the same time, and the\n"
        "slowest one counts.\n\n"
        "Options:\n"
        "      --list          print the rows that would run: case, dimensions, shape, type\n"
        "      --shape FILE    sizes of a model: a file of name=value lines, or one of\n"
        "                      %s\n"
        "                      (default: " DEFAULT_SHAPE ")\n"
        "      --dtype LIST    types of weights and caches, of f32,f16,bf16,q8_0,q4_0,q4_1\n"
        "                      (default: all)\n"
        "      --tokens LIST   tokens of a step; for attention 1 is decoding and more is a prompt\n"
        "                      (default: 1,256)\n"
        "      --reps N        samples of each row (default: 20)\n"
        "      --device SEL    OpenCL device, as in tpcl run --help\n"
        "      --format table|csv|jsonl   (default: table)\n"
        "  -h, --help          show this help\n"
        "  -V, --version       show the version\n\n"
        "Columns (version 1): case, shape, dtype, ranks, verdict, max_err, reps, min_us, "
        "median_us,\n"
        "p90_us, sd_us, GB/s, GFLOP/s, peer, ratio, repro. In jsonl GB/s is gbps, GFLOP/s gflops,\n"
        "what does not apply is null, and each line also has version, device, driver, git.\n"
        "A sample is the mean of a batch of runs of about 2 ms; the clock stops when the queue is\n"
        "drained. Rates are of the traffic and arithmetic that cannot be avoided, for one rank.\n"
        "peer and ratio: clblast:time and MPI_Allreduce:time divide the peer's median by ours;\n"
        "read:GB/s divides our rate by the best rate at which this device read half a gigabyte.\n"
        "Either way more than 1 is better than the peer. Both are timed in turn, in one process.\n"
        "Weights and caches lie there often enough to be read from memory.\n\n"
        "Examples:\n"
        "  tpcl-bench\n"
        "  tpcl-bench ops/linear --shape qwen3-0.6b --dtype bf16,q4_0 --tokens 1,32,256\n"
        "  tpcl-bench ops/linear 1x576x1536 --dtype q4_1 --reps 100 --format csv\n"
        "  mpiexec -n 2 tpcl-bench comm --format jsonl\n\n"
        "Exit codes:\n"
        "    0  every row passed\n"
        "    1  a result was wrong\n"
        "   64  usage\n"
        "   65  a damaged shape file\n"
        "   66  a shape file that cannot be opened\n"
        "   69  no usable OpenCL device\n"
        "   70  an OpenCL call failed\n"
        "   71  out of memory\n"
        "   74  standard output could not be written\n"
        "   75  a rank was lost or did not answer in time\n"
        "   76  the ranks have different command lines\n",
        bench_shape_names);
}
