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

enum { LIST_MAX = 512, SIZE_LIMIT = 1 << 30, POSITIONS = 1 << 20 };
#define DEFAULT_SHAPE "smollm2-135m"

const struct bench_option_row bench_option_table[] = {
    {"list", NULL, 'l', false, "print the rows that would run: case, dimensions, shape, type",
     NULL},
    {"shape", "FILE", 's', false,
     "sizes of a model: a file of name=value lines, or the name of one that is built in",
     DEFAULT_SHAPE},
    {"dtype", "LIST", 'd', false, "types of weights and caches, of f32,f16,bf16,q8_0,q4_0,q4_1",
     "all"},
    {"tokens", "LIST", 't', false,
     "tokens of a step; for attention and model 1 is decoding and more is a prompt", "1,256"},
    {"context", "LIST", 'c', false, "positions that a decoding attention looks back on",
     "256,1024,4096"},
    {"bytes", "LIST", 'b', false, "size of a collective's message, whole floats", "4-64M*4"},
    {"batch", "LIST", 'B', false, "sequences that a model works on at the same time", "1"},
    {"depth", "LIST", 'D', false, "positions in the cache before a model's prompt or generation",
     "0"},
    {"reps", "N", 'n', false, "samples of each row", "20"},
    {"device", "SEL", 'v', false, "OpenCL device, as in tpcl run --help", NULL},
    {"format", "table|csv|jsonl|gbench|osu", 'f', false, "how the rows are printed", "table"},
    {"baseline", "FILE", 'p', false,
     "csv or jsonl of an earlier run; rows slower beyond the noise make the exit code 1", NULL},
    {"help", NULL, 'h', true, "show this help", NULL},
    {"version", NULL, 'V', true, "show the version", NULL},
};
const size_t bench_option_count = sizeof bench_option_table / sizeof bench_option_table[0];

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
        if (to->dims == BENCH_DIMS || !parse_long(word, 0, SIZE_LIMIT, &to->shape[to->dims++]))
            return refuse(p, EX_USAGE,
                          "'%.60s' is not a shape: up to %d sizes from 0 to %d, as in 1x576x1536",
                          text, BENCH_DIMS, SIZE_LIMIT);
    return 0;
}

static int take_list(const struct parser *p, const char *option, const char *text, long min,
                     long max, struct bench_list *out)
{
    char why[200];
    if (bench_list_parse(text, min, max, out, why, sizeof why)) return 0;
    return refuse(p, EX_USAGE, "%s: %s", option, why);
}

/* "@d4096": the depth of the word before it. */
static int take_depth(const struct parser *p, const char *text)
{
    struct bench_settings *s = p->s;
    struct bench_selection *last = s->n_selections ? &s->selections[s->n_selections - 1] : NULL;
    if (!last || last->tokens.n == 0)
        return refuse(p, EX_USAGE, "%.60s does not follow a word like pp256 or tg128", text);
    if (text[1] != 'd') return refuse(p, EX_USAGE, "'%.60s' is not a depth, as @d4096 is", text);
    return take_list(p, text, text + 2, 0, POSITIONS, &last->depth);
}

/* llama-bench's pp256, tg128, tg128@d4096. */
static int take_word(const struct parser *p, const char *text)
{
    struct bench_settings *s = p->s;
    struct bench_selection *to = &s->selections[s->n_selections++];
    char tokens[LIST_MAX];
    const char *depth = strchr(text, '@');
    *to = (struct bench_selection){.name = *text == 'p' ? "model/pp" : "model/tg"};
    snprintf(tokens, sizeof tokens, "%.*s", depth ? (int)(depth - text) : LIST_MAX - 1, text);
    const int code = take_list(p, text, tokens + 2, 1, POSITIONS, &to->tokens);
    return code || !depth ? code : take_depth(p, depth);
}

static int take_operand(const struct parser *p, const char *text)
{
    struct bench_settings *s = p->s;
    if (isdigit((unsigned char)*text)) return take_shape(p, text);
    if (*text == '@') return take_depth(p, text);
    if (s->n_selections == BENCH_SELECTIONS)
        return refuse(p, EX_USAGE, "more than %d cases", BENCH_SELECTIONS);
    if ((strncmp(text, "pp", 2) == 0 || strncmp(text, "tg", 2) == 0) &&
        isdigit((unsigned char)text[2]))
        return take_word(p, text);
    s->selections[s->n_selections++] = (struct bench_selection){.name = text};
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
    static const char *const names[] = {"table", "csv", "jsonl", "gbench", "osu"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) != 0) continue;
        p->s->format = (enum bench_format)i;
        return 0;
    }
    return refuse(p, EX_USAGE, "--format: '%.60s' is not one of table, csv, jsonl, gbench, osu",
                  text);
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
    p->s->plan.model_name = name;
    if (shapes_load(name, &p->s->plan.model, p->message, p->size)) return 0;
    file = fopen(name, "re");
    if (!file) return EX_NOINPUT;
    fclose(file);
    return EX_DATAERR;
}

static int take_option(const struct parser *p, int letter, char **argv)
{
    struct bench_plan *plan = &p->s->plan;
    switch (letter) {
    case 's':
        return take_model(p, optarg);
    case 'd':
        return take_dtypes(p, optarg);
    case 't':
        return take_list(p, "--tokens", optarg, 1, POSITIONS, &plan->tokens);
    case 'c':
        return take_list(p, "--context", optarg, 1, POSITIONS, &plan->context);
    case 'b':
        return take_list(p, "--bytes", optarg, 4, SIZE_LIMIT, &plan->bytes);
    case 'B':
        return take_list(p, "--batch", optarg, 1, 256, &plan->batch);
    case 'D':
        return take_list(p, "--depth", optarg, 0, POSITIONS, &plan->depth);
    case 'n':
        return take_reps(p, optarg);
    case 'v':
        p->s->device = optarg;
        return 0;
    case 'f':
        return take_format(p, optarg);
    case 'p':
        p->s->baseline = optarg;
        return 0;
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
    struct option options[sizeof bench_option_table / sizeof bench_option_table[0] + 1] = {0};
    for (size_t i = 0; i < bench_option_count; i++) {
        const struct bench_option_row *row = &bench_option_table[i];
        options[i] = (struct option){row->name, row->argument ? required_argument : no_argument,
                                     NULL, row->code};
    }
    const struct parser p = {s, message, size};
    *s = (struct bench_settings){.dtypes = BENCH_WEIGHTS, .reps = 20};
    int code = take_model(&p, DEFAULT_SHAPE);
    for (size_t i = 0; !code && i < bench_option_count; i++) {
        const struct bench_option_row *row = &bench_option_table[i];
        if (!row->argument || strcmp(row->argument, "LIST") != 0 || row->code == 'd') continue;
        optarg = (char *)(uintptr_t)row->fallback; /* only read */
        code = take_option(&p, row->code, argv);
    }
    optind = 0; /* starts getopt over */
    opterr = 0;
    for (int letter; !code && (letter = getopt_long(argc, argv, "-:hV", options, NULL)) != -1;)
        code = letter == 1 ? take_operand(&p, optarg) : take_option(&p, letter, argv);
    while (!code && optind < argc) code = take_operand(&p, argv[optind++]);
    return code;
}
