/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <tpcl/shard.h>
#include <unistd.h>

#include "parse.h"
#include "report.h"

#define RUN (1u << VERB_RUN)
#define SCORE (1u << VERB_SCORE)
#define TOKENIZE (1u << VERB_TOKENIZE)
#define DETOKENIZE (1u << VERB_DETOKENIZE)
#define DEVICES (1u << VERB_DEVICES)
#define INSPECT (1u << VERB_INSPECT)
#define ALL ((1u << VERBS) - 1u)
#define AT(field) offsetof(struct settings, field)

static const char *const verb_names[VERBS] = {"run",        "score",   "tokenize",
                                              "detokenize", "devices", "inspect"};

/* clang-format off */
const struct option_row option_table[] = {
    {"prompt", 'p', OPTION_TEXT, true, RUN, AT(prompt), "TEXT", NULL, 0, 0,
     "the prompt; put into the checkpoint's chat template unless --raw"},
    {"file", 'f', OPTION_TEXT, true, RUN, AT(file), "FILE", NULL, 0, 0,
     "read the prompt from FILE"},
    {"ids", 0, OPTION_TEXT, true, RUN | SCORE | DETOKENIZE, AT(ids), "LIST", NULL, 0, 0,
     "token ids, 1,2,3 or [1, 2, 3], taken as they are"},
    {"n-predict", 'n', OPTION_INT, true, RUN, AT(n_predict), "N", "128", 0, INT_MAX,
     "generate at most N tokens"},
    {"temp", 0, OPTION_REAL, true, RUN, AT(temp), "T", "0", 0, 1e6,
     "temperature; 0 always takes the likeliest token"},
    {"top-k", 0, OPTION_INT, true, RUN, AT(top_k), "K", "0", 0, INT_MAX,
     "draw from the K likeliest tokens only; 0 = off"},
    {"top-p", 0, OPTION_REAL, true, RUN, AT(top_p), "P", "1", 0, 1,
     "draw from the likeliest tokens that together reach P; 1 = off"},
    {"min-p", 0, OPTION_REAL, true, RUN, AT(min_p), "P", "0", 0, 1,
     "draw from tokens at least P times as likely as the likeliest; 0 = off"},
    {"repeat-penalty", 0, OPTION_REAL, true, RUN, AT(repeat_penalty), "R", "1", 0, 1e6,
     "divide the logit of tokens that were there before by R, multiply it where negative; 1 = off"},
    {"repeat-last-n", 0, OPTION_INT, true, RUN, AT(repeat_last_n), "N", "0", 0, INT_MAX,
     "tokens that --repeat-penalty looks back on, prompt and answer; 0 = all"},
    {"seed", 0, OPTION_U64, true, RUN, AT(seed), "S", "0", 0, 0,
     "the same seed gives the same tokens, on any number of ranks"},
    {"raw", 0, OPTION_FLAG, true, RUN, AT(raw), NULL, NULL, 0, 0,
     "use the prompt as it is, without a chat template"},
    {"system", 0, OPTION_TEXT, true, RUN, AT(system), "TEXT", NULL, 0, 0,
     "system message instead of the template's own"},
    {"special", 0, OPTION_FLAG, true, RUN | TOKENIZE | DETOKENIZE, AT(special), NULL, NULL, 0, 0,
     "recognise special tokens such as <|im_start|> in text, and show them in output"},
    {"ignore-eos", 0, OPTION_FLAG, true, RUN, AT(ignore_eos), NULL, NULL, 0, 0,
     "have no stop ids: generate on through end tokens"},
    {"ctx", 0, OPTION_INT, true, RUN | SCORE | INSPECT, AT(ctx), "N", NULL, 1, INT_MAX,
     "context in tokens (default: the smaller of the model's and 4096)"},
    {"kv", 0, OPTION_CHOICE, true, RUN | SCORE | INSPECT, AT(kv), "f16|f32", "f16", 0, 0,
     "type of the KV cache"},
    {"chunk", 0, OPTION_INT, true, RUN | SCORE | INSPECT, AT(chunk), "N", NULL, 1, 1 << 20,
     "prompt tokens in one forward pass (default: 256)"},
    {"device", 0, OPTION_TEXT, true, RUN | SCORE, AT(device), "SEL", NULL, 0, 0,
     "OpenCL device: index, gpu|igpu|accelerator|cpu, or part of a device, vendor or platform "
     "name; a comma list is per local rank"},
    {"tp", 0, OPTION_INT, true, RUN | SCORE | INSPECT, AT(tp), "N", NULL, 1, TPCL_MAX_RANKS,
     "number of ranks; outside mpiexec, run and score start mpiexec -n N themselves"},
    {"out", 0, OPTION_TEXT, true, SCORE, AT(out), "FILE", NULL, 0, 0,
     "safetensors file to write"},
    {"timeout-s", 0, OPTION_REAL, true, RUN | SCORE, AT(timeout_s), "S", "60", 0.001, 1e6,
     "give up when another rank does not answer for S seconds"},
    {"gemm", 0, OPTION_CHOICE, true, RUN | SCORE, AT(gemm), "auto|panel|clblast", "auto", 0, 0,
     "how long prompts are multiplied: our panel kernels, or CLBlast"},
    {"cache-dir", 0, OPTION_TEXT, true, RUN | SCORE, AT(cache_dir), "DIR", NULL, 0, 0,
     "folder of compiled kernels (default: tpcl in $XDG_CACHE_HOME or ~/.cache)"},
    {"print-ids", 0, OPTION_FLAG, true, RUN, AT(print_ids), NULL, NULL, 0, 0,
     "print the generated ids only, comma-separated"},
    {"json", 0, OPTION_FLAG, true, RUN | DEVICES | INSPECT, AT(json), NULL, NULL, 0, 0,
     "print one JSON object"},
    {"list", 'l', OPTION_FLAG, true, DEVICES, AT(list), NULL, NULL, 0, 0,
     "names only"},
    {"progress", 0, OPTION_CHOICE, true, RUN | SCORE, AT(progress), "auto|bar|plain|none", "auto",
     0, 0, "show the load on stderr; auto: a bar on a terminal, else a line now and then"},
    {"color", 0, OPTION_CHOICE, true, RUN | SCORE, AT(color), "auto|always|never", "auto", 0, 0,
     "colour on stderr; auto also follows NO_COLOR, CLICOLOR_FORCE and TERM"},
    {"verbose", 'v', OPTION_FLAG, true, RUN | SCORE, AT(verbose), NULL, NULL, 0, 0,
     "on stderr, one line a rank: host, PID, platform, device, shards"},
    {"help", 'h', OPTION_FLAG, false, ALL, AT(help), NULL, NULL, 0, 0, "show this help"},
    {"version", 'V', OPTION_FLAG, false, ALL, AT(version), NULL, NULL, 0, 0,
     "show the versions of tpcl and of what it was built with"},
};
/* clang-format on */
const size_t option_count = sizeof option_table / sizeof option_table[0];
enum { OPTIONS_MAX = 64 };
_Static_assert(sizeof option_table / sizeof option_table[0] < OPTIONS_MAX, "raise OPTIONS_MAX");

/* The library or the launcher reads them. */
const struct option_other option_others[] = {
    {"TPCL_CACHE", "0: keep no compiled kernels"},
    {"TPCL_TTY", "1: stderr is a terminal although a launcher stands between, 2: stdout, 3: both"},
    {"TPCL_MPIEXEC", "what --tp starts instead of mpiexec"},
};
const size_t option_other_count = sizeof option_others / sizeof option_others[0];

/* Where the value of each option came from. */
enum source { FROM_DEFAULT, FROM_ENVIRONMENT, FROM_COMMAND_LINE };

const char *verb_name(enum verb verb)
{
    return verb < VERBS ? verb_names[verb] : "";
}

bool verb_uses_mpi(enum verb verb)
{
    return verb == VERB_RUN || verb == VERB_SCORE;
}

void option_twin(const struct option_row *row, char *out, size_t size)
{
    static const char small[] = "abcdefghijklmnopqrstuvwxyz-";
    static const char large[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    snprintf(out, size, "TPCL_%s", row->name);
    for (char *c = out + 5; *c; c++) {
        const char *found = strchr(small, *c);
        if (found) *c = large[found - small];
    }
}

static int choice(const char *choices, const char *text)
{
    const size_t length = strlen(text);
    int i = 0;
    for (const char *at = choices; at; i++) {
        const char *bar = strchr(at, '|');
        const size_t n = bar ? (size_t)(bar - at) : strlen(at);
        if (n == length && memcmp(at, text, n) == 0) return i;
        at = bar ? bar + 1 : NULL;
    }
    return -1;
}

static bool parse_flag(const char *text, bool *out)
{
    *out = strcmp(text, "1") == 0;
    return *out || strcmp(text, "0") == 0;
}

/* Stores `text` into the option's field. `label` is how the user spelled the option. */
static int assign(struct settings *s, const struct option_row *row, const char *label,
                  const char *text)
{
    void *field = (char *)s + row->offset;
    int64_t whole = 0;
    switch (row->kind) {
    case OPTION_FLAG:
        if (parse_flag(text, field)) return 0;
        return report_fail(EX_USAGE, "%s: '%s' is neither 1 nor 0", label, text);
    case OPTION_TEXT:
        *(const char **)field = text;
        return 0;
    case OPTION_INT:
        if (parse_int(text, (int64_t)row->min, (int64_t)row->max, &whole)) {
            *(int64_t *)field = whole;
            return 0;
        }
        return report_fail(EX_USAGE, "%s: '%s' is not a whole number from %.0f to %.0f", label,
                           text, row->min, row->max);
    case OPTION_U64:
        if (parse_u64(text, field)) return 0;
        return report_fail(EX_USAGE, "%s: '%s' is not a whole number from 0 to %llu", label, text,
                           ULLONG_MAX);
    case OPTION_REAL:
        if (parse_real(text, row->min, row->max, field)) return 0;
        return report_fail(EX_USAGE, "%s: '%s' is not a number from %g to %g", label, text,
                           row->min, row->max);
    case OPTION_CHOICE:
        *(int *)field = choice(row->argument, text);
        if (*(int *)field >= 0) return 0;
        return report_fail(EX_USAGE, "%s: '%s' is not one of %s", label, text, row->argument);
    }
    return EX_SOFTWARE;
}

static int take_environment(struct settings *s, enum source *from)
{
    for (size_t i = 0; i < option_count; i++) {
        const struct option_row *row = &option_table[i];
        char name[64];
        option_twin(row, name, sizeof name);
        const char *text = row->twin && from[i] != FROM_COMMAND_LINE ? getenv(name) : NULL;
        /* a twin may be set for all of a user's commands: it waits where it does not apply */
        if (!text || !*text || !(row->verbs & 1u << s->verb)) continue;
        const int code = assign(s, row, name, text);
        if (code) return code;
        from[i] = FROM_ENVIRONMENT;
    }
    return 0;
}

static const struct option_row *find_option(const char *name)
{
    for (size_t i = 0; i < option_count; i++)
        if (strcmp(option_table[i].name, name) == 0) return &option_table[i];
    return NULL;
}

/* A misspelt variable would otherwise do nothing, silently. */
static void warn_unknown_names(char **environment)
{
    char names[400] = "";
    for (char **entry = environment; *entry; entry++) {
        if (strncmp(*entry, "TPCL_", 5) != 0 || strncmp(*entry, "TPCL_TEST_", 10) == 0) continue;
        bool known = false;
        const size_t length = strcspn(*entry, "=");
        for (size_t i = 0; i < option_count && !known; i++) {
            char name[64];
            option_twin(&option_table[i], name, sizeof name);
            known =
                option_table[i].twin && strlen(name) == length && memcmp(name, *entry, length) == 0;
        }
        for (size_t i = 0; i < option_other_count && !known; i++)
            known = strlen(option_others[i].name) == length &&
                    memcmp(option_others[i].name, *entry, length) == 0;
        const size_t used = strlen(names);
        if (!known && used + length + 3 < sizeof names)
            snprintf(names + used, sizeof names - used, "%s%.*s", used ? ", " : "", (int)length,
                     *entry);
    }
    if (*names) report_warning("no such setting: %s (see tpcl VERB --help)", names);
}

/* getopt's own tables, made from ours. The value returned for a long option is its row + 256. */
static void getopt_tables(struct option *longs, char *shorts)
{
    *shorts++ = ':'; /* report a missing argument apart */
    for (size_t i = 0; i < option_count; i++) {
        const struct option_row *row = &option_table[i];
        const int has = row->kind == OPTION_FLAG ? no_argument : required_argument;
        longs[i] = (struct option){row->name, has, NULL, (int)i + 256};
        if (row->letter) *shorts++ = row->letter;
        if (row->letter && has == required_argument) *shorts++ = ':';
    }
    longs[option_count] = (struct option){0};
    *shorts = '\0';
}

static size_t row_of(int found)
{
    for (size_t i = 0; found < 256 && i < option_count; i++)
        if (option_table[i].letter == found) return i;
    return (size_t)found - 256;
}

static int bad_option(int found, const char *word)
{
    char spelled[4] = {'-', (char)optopt, '\0'};
    const bool is_letter = optopt > 0 && optopt < 256;
    const char *name = is_letter ? spelled : word;
    if (found == ':') return report_fail(EX_USAGE, "%s needs a value", name);
    if (optopt >= 256) return report_fail(EX_USAGE, "%s takes no value", name);
    return report_fail(EX_USAGE, "unknown or ambiguous option %s (see tpcl --help)", name);
}

static int take_command_line(struct settings *s, enum source *from, int argc, char **argv)
{
    struct option longs[OPTIONS_MAX];
    char shorts[2 * OPTIONS_MAX + 2];
    getopt_tables(longs, shorts);
    opterr = 0;
    for (;;) {
        const int at = optind ? optind : 1;
        const int found = getopt_long(argc, argv, shorts, longs, NULL);
        if (found == -1) return 0;
        if (found == '?' || found == ':')
            return bad_option(found, argv[optind > at ? optind - 1 : at]);
        const size_t i = row_of(found);
        const struct option_row *row = &option_table[i];
        char label[40];
        snprintf(label, sizeof label, "--%s", row->name);
        if (!(row->verbs & 1u << s->verb))
            return report_fail(EX_USAGE, "%s does not apply to 'tpcl %s' (see tpcl %s --help)",
                               label, verb_name(s->verb), verb_name(s->verb));
        const int code = assign(s, row, label, row->kind == OPTION_FLAG ? "1" : optarg);
        if (code) return code;
        from[i] = FROM_COMMAND_LINE;
    }
}

/* -p, -f and --ids exclude each other; what is typed outweighs what the environment holds. */
static int one_prompt(struct settings *s, const enum source *from)
{
    static const char *const names[] = {"prompt", "file", "ids"};
    int count[FROM_COMMAND_LINE + 1] = {0};
    for (size_t i = 0; i < 3; i++) count[from[find_option(names[i]) - option_table]]++;
    const enum source wins = count[FROM_COMMAND_LINE] ? FROM_COMMAND_LINE : FROM_ENVIRONMENT;
    if (count[wins] > 1)
        return report_fail(EX_USAGE, "--prompt, --file and --ids exclude each other: give one");
    if (count[wins] == 0)
        return report_fail(EX_USAGE, "no prompt: give -p TEXT, -f FILE or --ids LIST");
    for (size_t i = 0; i < 3; i++) {
        const struct option_row *row = find_option(names[i]);
        if (from[row - option_table] != wins) *(const char **)((char *)s + row->offset) = NULL;
    }
    return 0;
}

static int check(struct settings *s, const enum source *from, int extra, char **words)
{
    if (s->verb != VERB_DEVICES && extra == 0)
        return report_fail(EX_USAGE, "no MODEL: tpcl %s needs a .gguf file or a checkpoint folder",
                           verb_name(s->verb));
    const int wanted = s->verb == VERB_DEVICES ? 0 : 1;
    if (extra > wanted)
        return report_fail(EX_USAGE, "unexpected argument '%s' (see tpcl %s --help)", words[wanted],
                           verb_name(s->verb));
    s->model = wanted ? words[0] : NULL;
    if (wanted && !*s->model) return report_fail(EX_USAGE, "MODEL is an empty name");
    if (s->verb == VERB_SCORE && !s->ids) return report_fail(EX_USAGE, "score needs --ids LIST");
    if (s->verb == VERB_SCORE && (!s->out || !*s->out))
        return report_fail(EX_USAGE, "score needs --out FILE");
    if (s->print_ids && s->json)
        return report_fail(EX_USAGE, "--print-ids and --json exclude each other");
    return s->verb == VERB_RUN ? one_prompt(s, from) : 0;
}

/* `tpcl`, `tpcl --help` and `tpcl --version`, which have no verb. */
static int without_verb(struct settings *s, int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    s->help = strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
    s->version = strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0;
    if (s->help || s->version) return 0;
    if (argc < 2) return report_fail(EX_USAGE, "no command given (see tpcl --help)");
    return report_fail(EX_USAGE, "no such command: '%s' (see tpcl --help)", word);
}

int options_parse(struct settings *s, int argc, char **argv)
{
    enum source from[OPTIONS_MAX] = {FROM_DEFAULT};
    *s = (struct settings){.verb = VERBS};
    for (int v = 0; argc > 1 && v < VERBS; v++)
        if (strcmp(argv[1], verb_names[v]) == 0) s->verb = (enum verb)v;
    if (s->verb == VERBS) return without_verb(s, argc, argv);
    int code = 0;
    for (size_t i = 0; i < option_count && !code; i++)
        if (option_table[i].fallback)
            code = assign(s, &option_table[i], option_table[i].name, option_table[i].fallback);
    if (!code) code = take_command_line(s, from, argc - 1, argv + 1);
    if (code || s->help || s->version) return code;
    code = take_environment(s, from);
    if (!code) code = check(s, from, argc - 1 - optind, argv + 1 + optind);
    if (!code) warn_unknown_names(environ);
    return code;
}
