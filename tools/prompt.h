/* From -p, -f or --ids to token ids. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_PROMPT_H
#define TOOLS_PROMPT_H

#include <tpcl/tokenizer.h>

#include "session.h"

/* Local, rank 0 after session_open(): fills s->ids, s->stop_ids and s->valid_vocab.
 * @param tokenizer  out  NULL where the checkpoint has none and ids were given
 * Returns this rank's own code, recorded, not yet agreed. */
int prompt_prepare(struct session *s, tpcl_tokenizer **tokenizer);

#endif
