/* The one table of options: parsing, environment twins and help are made from it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_OPTIONS_H
#define TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum verb {
    VERB_RUN,
    VERB_SCORE,
    VERB_TOKENIZE,
    VERB_DETOKENIZE,
    VERB_DEVICES,
    VERB_INSPECT,
    VERBS /* also: none given */
};

enum kv_type { KV_F16, KV_F32 };
enum progress_mode { PROGRESS_AUTO, PROGRESS_BAR, PROGRESS_PLAIN, PROGRESS_NONE };
enum color_mode { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

/* The effective value of every option. Texts point into argv or the environment. */
struct settings {
    enum verb verb;
    const char *model; /* the positional argument, or NULL */
    const char *prompt, *file, *ids, *system, *device, *cache_dir, *out;
    int64_t n_predict, top_k, repeat_last_n;
    int64_t ctx, chunk, tp; /* 0 = not given */
    double temp, top_p, min_p, repeat_penalty, timeout_s;
    uint64_t seed;
    int kv, progress, color; /* the enums above */
    int gemm;                /* tpcl_gemm */
    bool raw, special, ignore_eos, print_ids, json, list, verbose, help, version;
};

enum option_kind { OPTION_FLAG, OPTION_TEXT, OPTION_INT, OPTION_U64, OPTION_REAL, OPTION_CHOICE };

struct option_row {
    const char *name; /* long name; the environment twin is TPCL_ and the name in capitals */
    char letter;      /* 0 = none */
    enum option_kind kind;
    bool twin;            /* has an environment twin */
    unsigned verbs;       /* bit v set: applies to verb v */
    size_t offset;        /* of its field in struct settings */
    const char *argument; /* as in help; for OPTION_CHOICE the choices, a|b|c */
    const char *fallback; /* the default as one would type it, or NULL */
    double min, max;      /* OPTION_INT, OPTION_REAL */
    const char *help;
};

extern const struct option_row option_table[];
extern const size_t option_count;

/* Names in the environment that are no option's twin. */
struct option_other {
    const char *name, *help;
};
extern const struct option_other option_others[];
extern const size_t option_other_count;

/* Fills *s from defaults, environment and argv, in rising order of weight. Returns 0, or EX_USAGE
 * with the message recorded (report.h); s->verb and s->tp are then set as far as they were read. */
int options_parse(struct settings *s, int argc, char **argv);

/* "TPCL_N_PREDICT" for "n-predict". */
void option_twin(const struct option_row *row, char *out, size_t size);

const char *verb_name(enum verb verb);
bool verb_uses_mpi(enum verb verb);

#endif
