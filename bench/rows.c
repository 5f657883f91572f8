/* SPDX-License-Identifier: Apache-2.0 */
#include "rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

struct row {
    const struct bench_case *c;
    tpcl_dtype dtype;
    const long *shape;
};

/* Called for each row; false ends the walk. A row without a shape: a case that has too many. */
typedef bool (*visit)(void *context, const struct row *row);

static bool walk_dtypes(const struct bench_settings *s, const struct bench_case *c,
                        const long *shape, visit each, void *context)
{
    const unsigned dtypes = c->dtypes & s->dtypes;
    for (int d = 0; dtypes >> d; d++) {
        const struct row row = {c, (tpcl_dtype)d, shape};
        if (dtypes & BENCH_DTYPE(d) && !each(context, &row)) return false;
    }
    return true;
}

static bool seen(long (*shapes)[BENCH_DIMS], int n)
{
    for (int i = 0; i < n; i++)
        if (memcmp(shapes[i], shapes[n], sizeof shapes[n]) == 0) return true;
    return false;
}

static bool walk_case(const struct bench_settings *s, const struct bench_case *c,
                      const struct bench_selection *selection, visit each, void *context)
{
    long shapes[BENCH_SHAPES][BENCH_DIMS] = {{0}};
    struct bench_plan plan = s->plan;
    if (selection && selection->tokens.n > 0) plan.tokens = selection->tokens;
    plan.word = selection && selection->tokens.n > 0;
    if (selection && selection->depth.n > 0) plan.depth = selection->depth;
    if (selection && selection->dims > 0) return walk_dtypes(s, c, selection->shape, each, context);
    const int n = c->shapes(&plan, shapes);
    if (n > BENCH_SHAPES) return each(context, &(struct row){.c = c});
    for (int i = 0; i < n; i++)
        if (!seen(shapes, i) && !walk_dtypes(s, c, shapes[i], each, context)) return false;
    return true;
}

static bool matches(const struct bench_selection *selection, const struct bench_case *c)
{
    return strncmp(c->name, selection->name, strlen(selection->name)) == 0;
}

/* In the order of the command line, or of the suite. */
static void walk(const struct bench_suite *suite, const struct bench_settings *s, visit each,
                 void *context)
{
    for (int i = 0; s->n_selections == 0 && i < suite->n; i++)
        if (!walk_case(s, suite->cases[i], NULL, each, context)) return;
    for (int k = 0; k < s->n_selections; k++)
        for (int i = 0; i < suite->n; i++)
            if (matches(&s->selections[k], suite->cases[i]) &&
                !walk_case(s, suite->cases[i], &s->selections[k], each, context))
                return;
}

/* What the rows that were asked for are. */
struct survey {
    const struct bench_settings *s;
    int rows;
    const struct bench_case *too_many, *no_collective;
    struct bench_extras extras;
};

static bool survey_row(void *context, const struct row *row)
{
    struct survey *to = context;
    to->rows++;
    if (!row->shape) to->too_many = row->c;
    if (!row->c->bus) to->no_collective = row->c;
    if (row->c->bus) to->extras.bus = true;
    if (row->c->tokens) to->extras.tokens = true;
    return true;
}

/* A size that may not be 0: any but a depth. */
static bool has_nothing(const struct bench_case *c, const long *shape)
{
    const char *name = c->dims;
    for (int i = 0; i < bench_case_dims(c); i++) {
        if (shape[i] == 0 && strncmp(name, "depth", 5) != 0) return true;
        const char *comma = strchr(name, ',');
        if (comma) name = comma + 1;
    }
    return false;
}

static int check_selection(const struct bench_suite *suite, const struct bench_selection *k,
                           char *message, size_t size)
{
    const struct bench_case *only = NULL;
    int found = 0;
    for (int i = 0; i < suite->n; i++) {
        if (!matches(k, suite->cases[i])) continue;
        only = suite->cases[i];
        found++;
    }
    if (found == 0) {
        int used = snprintf(message, size, "no case begins with '%.60s'; there are", k->name);
        for (int i = 0; i < suite->n && used > 0 && (size_t)used < size; i++)
            used += snprintf(message + used, size - (size_t)used, " %s", suite->cases[i]->name);
        return EX_USAGE;
    }
    if (k->dims > 0 && found > 1) {
        snprintf(message, size, "a shape needs one case, '%.60s' begins %d", k->name, found);
        return EX_USAGE;
    }
    if (k->dims > 0 && k->dims != bench_case_dims(only)) {
        snprintf(message, size, "the shape of %s is %s: %d sizes, not %d", only->name, only->dims,
                 bench_case_dims(only), k->dims);
        return EX_USAGE;
    }
    if (k->dims > 0 && has_nothing(only, k->shape)) {
        char shape[128];
        bench_shape_text(only, k->shape, shape, sizeof shape);
        snprintf(message, size, "%s: %s has a size of 0 in %s", only->name, shape, only->dims);
        return EX_USAGE;
    }
    return 0;
}

int bench_rows_check(const struct bench_suite *suite, const struct bench_settings *s, char *message,
                     size_t size)
{
    struct survey found = {.s = s};
    for (int k = 0; k < s->n_selections; k++) {
        const int code = check_selection(suite, &s->selections[k], message, size);
        if (code) return code;
    }
    walk(suite, s, survey_row, &found);
    if (found.rows == 0)
        snprintf(message, size,
                 "no row: no case that was asked for has one of the types of --dtype, or one of "
                 "the numbers of tokens");
    else if (found.too_many)
        snprintf(message, size, "%s: more than %d shapes; shorten a list", found.too_many->name,
                 BENCH_SHAPES);
    else if (s->format == BENCH_OSU && found.no_collective)
        snprintf(message, size, "--format osu is for collectives only, not for %s",
                 found.no_collective->name);
    else
        return 0;
    return EX_USAGE;
}

static bool print_row(void *context, const struct row *row)
{
    char shape[128], dtype[8];
    bench_shape_text(row->c, row->shape, shape, sizeof shape);
    bench_dtype_text(row->dtype, dtype);
    fprintf(context, "%s %s %s %s\n", row->c->name, row->c->dims, shape, dtype);
    return true;
}

void bench_rows_print(const struct bench_suite *suite, const struct bench_settings *s, FILE *to)
{
    walk(suite, s, print_row, to);
}

int bench_exit_code(tpcl_status status)
{
    switch (status) {
    case TPCL_OK:
        return 0;
    case TPCL_ERR_ARG:
        return EX_USAGE;
    case TPCL_ERR_SHAPE:
    case TPCL_ERR_FORMAT:
    case TPCL_ERR_UNSUPPORTED:
        return EX_DATAERR;
    case TPCL_ERR_NO_DEVICE:
        return EX_UNAVAILABLE;
    case TPCL_ERR_NOMEM:
    case TPCL_ERR_DEVICE_MEM:
        return EX_OSERR;
    case TPCL_ERR_COMM:
    case TPCL_ERR_TIMEOUT:
    case TPCL_ERR_PEER:
    case TPCL_ERR_GROUP_FAILED:
        return EX_TEMPFAIL;
    case TPCL_ERR_MISMATCH:
        return EX_PROTOCOL;
    default:
        return EX_SOFTWARE;
    }
}

struct job {
    const struct bench_settings *s;
    struct bench_env *env;
    struct bench_output output;
    double *samples; /* [reps] */
    const struct bench_records *baseline;
    int compared, slower;
    int code;
    bool lost;
};

/* A row beside the one of an earlier run, as talk. */
static void compare(struct job *job, const struct bench_run *r, const struct bench_result *result)
{
    char shape[128], dtype[8];
    bench_shape_text(r->c, r->shape, shape, sizeof shape);
    bench_dtype_text(r->dtype, dtype);
    const struct bench_record *then =
        bench_records_find(job->baseline, r->c->name, shape, dtype, job->env->size);
    if (!then || !(then->median > 0.0) || result->verdict != BENCH_PASS) return;
    const struct bench_change change = bench_compare(&result->us, then);
    job->compared++;
    if (fabs(change.slower) <= change.noise) return;
    bench_say("%s: %s %s %s: %.3f us, was %.3f: %+.1f %%, noise %.1f %%",
              change.slower > 0.0 ? "SLOWER" : "faster", r->c->name, shape, dtype,
              result->us.median, then->median, 100.0 * change.slower, 100.0 * change.noise);
    if (change.slower > 0.0) job->slower++;
}

static int conclude(const struct job *job)
{
    bench_say("baseline: %d rows compared, %d slower", job->compared, job->slower);
    if (job->compared == 0) bench_say("baseline: none of the rows is in it");
    return job->slower > 0 ? 1 : job->compared == 0 ? EX_DATAERR : 0;
}

static bool run_row(void *context, const struct row *row)
{
    struct job *job = context;
    struct bench_run r = {
        .env = job->env, .dtype = row->dtype, .plan = &job->s->plan, .samples = job->samples};
    struct bench_result result;
    memcpy(r.shape, row->shape, sizeof r.shape);
    const tpcl_status status = bench_row(row->c, &r, job->s->reps, &result);
    if (status != TPCL_OK) {
        if (job->env->rank == 0) bench_say("%s", tpcl_last_error());
        job->code = bench_exit_code(status);
        job->lost = true;
        return false;
    }
    if (result.verdict == BENCH_FAILED) job->code = 1;
    if (result.verdict == BENCH_ERROR && job->code == 0) job->code = bench_exit_code(result.status);
    if (job->env->rank == 0) bench_output_row(&job->output, &r, job->s->reps, &result);
    if (job->env->rank == 0 && job->baseline) compare(job, &r, &result);
    return true;
}

int bench_rows_run(const struct bench_suite *suite, const struct bench_settings *s,
                   const struct bench_records *baseline, struct bench_env *env, FILE *to,
                   bool *lost)
{
    struct survey found = {.s = s};
    struct job job = {.s = s, .env = env, .baseline = baseline};
    job.output =
        (struct bench_output){.to = to, .format = s->format, .env = env, .device = s->device};
    *lost = false;
    job.samples = malloc((size_t)s->reps * sizeof *job.samples);
    if (!job.samples) return bench_exit_code(TPCL_ERR_NOMEM);
    walk(suite, s, survey_row, &found);
    job.output.extras = found.extras;
    if (env->rank == 0) bench_output_begin(&job.output);
    walk(suite, s, run_row, &job);
    if (env->rank == 0) bench_output_end(&job.output);
    if (env->rank == 0 && baseline && !job.code) job.code = conclude(&job);
    free(job.samples);
    *lost = job.lost;
    return job.code;
}
