/** @file tokenizer.h  Text to ids and back: byte-level BPE, and chat prompts. No OpenCL, no MPI. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_TOKENIZER_H
#define TPCL_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tpcl/checkpoint.h>
#include <tpcl/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Words and merges of a model. Opaque; immutable after creation, and may be used by several
 * threads at a time. */
typedef struct tpcl_tokenizer tpcl_tokenizer;

/**
 * Builds a tokenizer from a checkpoint's raw material (copied; the checkpoint may be closed).
 * Byte-level BPE only, with the split patterns of GPT-2, SmolLM (single digits, then GPT-2), Qwen2
 * and Llama-3, recognised by GGUF's `pre` name or by the exact text in tokenizer.json; a pattern
 * from a file is never compiled. NFC where the file asks for it, and for GGUF's qwen2. A chat
 * template's own markers (<|im_end|>) are special whatever the file calls them.
 *
 * Collective: no.  Blocks: yes.  Allocates: yes.
 * Errors: TPCL_ERR_FORMAT (damaged, no merges, merges naming unknown tokens), TPCL_ERR_UNSUPPORTED
 * (another tokenizer model or pattern), TPCL_ERR_ARG (source not present), TPCL_ERR_NOMEM.
 */
TPCL_NODISCARD tpcl_status tpcl_tokenizer_create(const tpcl_tokenizer_source *source,
                                                 tpcl_tokenizer **out);
/**
 * NULL and *NULL are no-ops; sets *tokenizer to NULL.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
void tpcl_tokenizer_destroy(tpcl_tokenizer **tokenizer);

/**
 * Number of ids: 0 .. vocab-1. The model's head may have more rows: padding, which GGUF files list
 * as tokens at the end; they are not counted.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
int tpcl_tokenizer_vocab(const tpcl_tokenizer *tokenizer);
/**
 * The id that ends a text; -1 where the file names none.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
int tpcl_tokenizer_eos(const tpcl_tokenizer *tokenizer);
/**
 * Id of an added or special token's exact text, or -1.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
int tpcl_tokenizer_find_special(const tpcl_tokenizer *tokenizer, const char *text);

/**
 * Encodes @p length bytes. No BOS or EOS is added. Invalid UTF-8 becomes U+FFFD.
 * @param special  in   recognise special (control) tokens in the text; added tokens that are not
 *                      special (<think>) are always recognised
 * @param ids      out  malloc'ed, free() it; NULL when *n is 0
 * Collective: no.  Blocks: no.  Allocates: yes, the ids.
 * Errors: TPCL_ERR_NOMEM, TPCL_ERR_ARG.
 */
TPCL_NODISCARD tpcl_status tpcl_tokenizer_encode(const tpcl_tokenizer *tokenizer, const char *text,
                                                 size_t length, bool special, int32_t **ids,
                                                 size_t *n);

/**
 * The exact bytes of the ids, not terminated. Special tokens appear only with @p special.
 *
 * @param bytes  out  malloc'ed, free() it; may be NULL when *length is 0
 * Collective: no.  Blocks: no.  Allocates: yes, the bytes.
 * Errors: TPCL_ERR_ARG (an id outside the vocabulary, named), TPCL_ERR_NOMEM.
 */
TPCL_NODISCARD tpcl_status tpcl_tokenizer_decode(const tpcl_tokenizer *tokenizer,
                                                 const int32_t *ids, size_t n, bool special,
                                                 char **bytes, size_t *length);

/** Streaming: whole UTF-8 characters only; what can never become one is U+FFFD, and so is NUL,
 * which a terminated text cannot hold. Opaque; one stream, one thread at a time. */
typedef struct tpcl_decoder tpcl_decoder;
/**
 * Begins a stream.
 *
 * @param tokenizer  in   must outlive the decoder
 * @param special    in   show special tokens
 * @param out        out  NULL on failure
 * Collective: no.  Blocks: no.  Allocates: yes.  Errors: TPCL_ERR_ARG, TPCL_ERR_NOMEM.
 */
TPCL_NODISCARD tpcl_status tpcl_decoder_create(const tpcl_tokenizer *tokenizer, bool special,
                                               tpcl_decoder **out);
/**
 * NULL and *NULL are no-ops; sets *decoder to NULL.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
void tpcl_decoder_destroy(tpcl_decoder **decoder);
/**
 * Takes one more id. An id beyond the tokenizer's words (a padding row) yields nothing.
 *
 * @param text  out  what has become complete, terminated, valid until the next call; maybe ""
 * Collective: no.  Blocks: no.  Allocates: now and then, to hold the text.
 * Errors: TPCL_ERR_ARG, TPCL_ERR_NOMEM.
 */
TPCL_NODISCARD tpcl_status tpcl_decoder_push(tpcl_decoder *decoder, int32_t id, const char **text);
/**
 * Ends the stream; the decoder is then as new.
 *
 * @param text  out  the unfinished rest as U+FFFD, as in tpcl_decoder_push()
 * Collective: no.  Blocks: no.  Allocates: now and then.  Errors: TPCL_ERR_ARG, TPCL_ERR_NOMEM.
 */
TPCL_NODISCARD tpcl_status tpcl_decoder_finish(tpcl_decoder *decoder, const char **text);

/**
 * One user turn as a prompt, through the checkpoint's chat template: known templates (SmolLM2,
 * Qwen2.5, Qwen3, Llama-3) are recognised by a hash of their text, or in edited versions by the
 * lines that decide, and rendered here, with their own default system message; an unknown one that
 * contains <|im_start|> is rendered as plain ChatML. Llama-3.2's writes today's date, as its text
 * says: ranks that encode for themselves may differ at midnight, so let one encode for all.
 *
 * @param system   in   NULL = the template's default
 * @param special  in   let special tokens in system and user text take effect
 * @param ids      out  malloc'ed, free() it
 * Collective: no.  Blocks: no.  Allocates: yes, the ids.
 * Errors: TPCL_ERR_UNSUPPORTED (unknown template: the message names --raw), TPCL_ERR_ARG,
 * TPCL_ERR_NOMEM.
 */
TPCL_NODISCARD tpcl_status tpcl_chat_encode(const tpcl_tokenizer *tokenizer, const char *system,
                                            const char *user, size_t user_length, bool special,
                                            int32_t **ids, size_t *n);
/**
 * Whether the checkpoint has a chat template at all; if not, prompts go in raw.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
bool tpcl_chat_has_template(const tpcl_tokenizer *tokenizer);
/**
 * "smollm2", "qwen2.5", "qwen3", "llama3", "chatml", "unknown", "none".
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
const char *tpcl_chat_template_name(const tpcl_tokenizer *tokenizer);

#ifdef __cplusplus
}
#endif
#endif
