/* What run prints: text or ids as they come, one JSON object, statistics. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_OUTPUT_H
#define TOOLS_OUTPUT_H

#include <tpcl/tokenizer.h>

#include "session.h"
#include "text.h"

struct output {
    const struct settings *settings;
    tpcl_decoder *decoder;   /* NULL: no text */
    bool visible;            /* rank 0 */
    bool strip;              /* drop control characters: a terminal may be reading */
    struct text_buffer text; /* all of it for --json, else the piece that is being stripped */
    int32_t *ids;
    int n;
    double submitted_s, first_s; /* seconds_now() */
    int code;                    /* of the first failure to write */
};

/* Only rank 0 prints; on the others, and without tokenizer, @p tokenizer is NULL. */
int output_begin(struct output *out, const struct session *s, const tpcl_tokenizer *tokenizer);
void output_submit(struct output *out);
/* Has the signature of tpcl_generate_options.token; nonzero when stdout does not take any more. */
int output_token(void *context, int32_t id);

/* The end of the stream: what the decoder holds back, a newline, or the JSON object. Returns 0 or a
 * code of its own, recorded. @p result may be incomplete when finish is TPCL_FINISH_ERROR. */
int output_finish(struct output *out, const struct session *s, const tpcl_generate_result *result);
/* On stderr. */
void output_statistics(const struct output *out, const struct session *s,
                       const tpcl_generate_result *result);
void output_free(struct output *out);

#endif
