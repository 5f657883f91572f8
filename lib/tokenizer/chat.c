/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "tokenizer/text.h"
#include "tokenizer/tokenizer.h"

enum { MAX_SPANS = 16 };

/* The prompt is encoded as one text, since merges cross from the template's words into the user's;
 * the spans say where special tokens count. */
typedef struct prompt {
    tpi_strbuf text;
    tpi_span trusted[MAX_SPANS];
    size_t n_trusted;
} prompt;

static void trust(prompt *p, size_t start)
{
    tpi_span *last = p->n_trusted > 0 ? &p->trusted[p->n_trusted - 1] : NULL;
    if (last && last->end == start)
        last->end = p->text.length;
    else if (p->n_trusted < MAX_SPANS)
        p->trusted[p->n_trusted++] = (tpi_span){start, p->text.length};
}

static tpcl_status own(prompt *p, const char *text)
{
    tpcl_status status = TPCL_OK;
    const size_t start = p->text.length;
    TPI_TRY(tpi_strbuf_append(&p->text, text, strlen(text)));
    trust(p, start);
done:
    return status;
}

typedef struct message {
    const char *text;
    size_t length;
    bool special; /* its special tokens take effect */
    bool trim;
} message;

static tpcl_status theirs(prompt *p, message m)
{
    tpcl_status status = TPCL_OK;
    const size_t start = p->text.length;
    tpi_strbuf repaired = {0};

    TPI_TRY(tpi_utf8_repair(m.text, m.length, &repaired));
    const char *text = repaired.data;
    size_t length = repaired.length;
    if (m.trim && length > 0) {
        const size_t skip = tpi_space_at_start(text, length, true);
        text += skip;
        length -= skip;
        length -= tpi_space_at_end(text, length, true);
    }
    TPI_TRY(tpi_strbuf_append(&p->text, text, length));
    if (m.special && length > 0) trust(p, start);
done:
    tpi_strbuf_free(&repaired);
    return status;
}

static tpcl_status render_chatml(prompt *p, const tpi_chat *chat, const message *system,
                                 message user)
{
    tpcl_status status = TPCL_OK;
    if (system) {
        TPI_TRY(own(p, "<|im_start|>system\n"));
        TPI_TRY(theirs(p, *system));
        TPI_TRY(own(p, "<|im_end|>\n"));
    } else if (chat->family == TPI_CHAT_SMOLLM2) {
        TPI_TRY(own(p, "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained "
                       "by Hugging Face<|im_end|>\n"));
    } else if (chat->family == TPI_CHAT_QWEN25) {
        TPI_TRY(own(p, "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a "
                       "helpful assistant.<|im_end|>\n"));
    }
    TPI_TRY(own(p, "<|im_start|>user\n"));
    TPI_TRY(theirs(p, user));
    TPI_TRY(own(p, "<|im_end|>\n<|im_start|>assistant\n"));
    if (chat->opens_thinking) TPI_TRY(own(p, "<think>\n"));
done:
    return status;
}

/* "01 Dec 2025": English whatever the locale, as the template's authors see it. */
static void date_of(const tpi_chat *chat, char out[TPI_DATE_MAX])
{
    static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const time_t now = time(NULL);
    struct tm tm;
    if (chat->today && localtime_r(&now, &tm))
        snprintf(out, TPI_DATE_MAX, "%02d %s %d", tm.tm_mday, months[tm.tm_mon], tm.tm_year + 1900);
    else
        snprintf(out, TPI_DATE_MAX, "%s", chat->date);
}

static tpcl_status render_llama3(prompt *p, const tpi_chat *chat, const message *system,
                                 message user)
{
    tpcl_status status = TPCL_OK;
    char date[TPI_DATE_MAX];

    TPI_TRY(own(p, "<|begin_of_text|>"));
    if (system || chat->knowledge_header)
        TPI_TRY(own(p, "<|start_header_id|>system<|end_header_id|>\n\n"));
    if (chat->knowledge_header) {
        date_of(chat, date);
        TPI_TRY(own(p, "Cutting Knowledge Date: December 2023\nToday Date: "));
        TPI_TRY(own(p, date));
        TPI_TRY(own(p, "\n\n"));
    }
    if (system) TPI_TRY(theirs(p, *system));
    if (system || chat->knowledge_header) TPI_TRY(own(p, "<|eot_id|>"));
    TPI_TRY(own(p, "<|start_header_id|>user<|end_header_id|>\n\n"));
    TPI_TRY(theirs(p, user));
    TPI_TRY(own(p, "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"));
done:
    return status;
}

tpcl_status tpcl_chat_encode(const tpcl_tokenizer *tokenizer, const char *system, const char *user,
                             size_t user_length, bool special, int32_t **ids, size_t *n)
{
    tpcl_status status = TPCL_OK;
    prompt p = {0};
    tpi_idbuf out = {0};

    TPI_REQUIRE(ids && n, TPCL_ERR_ARG, "chat: no place for the ids");
    *ids = NULL;
    *n = 0;
    TPI_REQUIRE(tokenizer && (user || user_length == 0), TPCL_ERR_ARG, "chat: a pointer is NULL");
    const tpi_chat *chat = &tokenizer->chat;
    TPI_REQUIRE(chat->family != TPI_CHAT_NONE, TPCL_ERR_UNSUPPORTED,
                "the checkpoint has no chat template; use --raw to give the prompt as it is");
    TPI_REQUIRE(chat->family != TPI_CHAT_UNKNOWN, TPCL_ERR_UNSUPPORTED,
                "the checkpoint's chat template is unknown (known: SmolLM2, Qwen2.5, Qwen3, "
                "Llama-3, ChatML); use --raw to give the prompt as it is");
    const bool llama3 = chat->family == TPI_CHAT_LLAMA3;
    const message from_system = {system, system ? strlen(system) : 0, special, llama3};
    const message from_user = {user, user_length, special, llama3};
    TPI_TRY((llama3 ? render_llama3 : render_chatml)(&p, chat, system ? &from_system : NULL,
                                                     from_user));
    TPI_TRY(tpi_encode(tokenizer, p.text.data, p.text.length, p.trusted, p.n_trusted, &out));
    *ids = out.data;
    *n = out.n;
    out = (tpi_idbuf){0}; /* ownership moved to the caller */
done:
    free(out.data);
    tpi_strbuf_free(&p.text);
    return status;
}

bool tpcl_chat_has_template(const tpcl_tokenizer *tokenizer)
{
    return tokenizer && tokenizer->chat.family != TPI_CHAT_NONE;
}

const char *tpcl_chat_template_name(const tpcl_tokenizer *tokenizer)
{
    static const char *const names[] = {
        [TPI_CHAT_NONE] = "none",      [TPI_CHAT_UNKNOWN] = "unknown",
        [TPI_CHAT_CHATML] = "chatml",  [TPI_CHAT_SMOLLM2] = "smollm2",
        [TPI_CHAT_QWEN25] = "qwen2.5", [TPI_CHAT_QWEN3] = "qwen3",
        [TPI_CHAT_LLAMA3] = "llama3",
    };
    return tokenizer ? names[tokenizer->chat.family] : NULL;
}
