/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "tokenizer/tokenizer.h"

/* Published templates, by XXH3-64 of the text without white space at its end. */
static const struct {
    uint64_t hash;
    tpi_chat chat;
} known[] = {
    {0x99ab995e9629dacdu, {.family = TPI_CHAT_SMOLLM2}}, /* SmolLM2-*-Instruct */
    {0x2469c9508f79506eu, {.family = TPI_CHAT_QWEN25}},  /* Qwen2.5-*-Instruct */
    {0x0283f874ff58d644u, {.family = TPI_CHAT_QWEN3}},   /* Qwen3-* of April 2025 */
    {0x866fc8fa50da12feu, {.family = TPI_CHAT_LLAMA3}},  /* Meta-Llama-3-*-Instruct */
    {0x6ca7779b7730196au, /* Llama-3.1-*-Instruct, Llama-3.3-70B-Instruct */
     {.family = TPI_CHAT_LLAMA3, .knowledge_header = true, .date = "26 Jul 2024"}},
    {0xc3d57e38f5ff0756u, /* Llama-3.2-*-Instruct */
     {.family = TPI_CHAT_LLAMA3, .knowledge_header = true, .today = true}},
};

/* The same templates get small edits from release to release. What decides about one user turn has
 * stayed, and is unlikely to stand together in any other template. */
#define LLAMA3_MESSAGE                                                                           \
    "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | " \
    "trim + '<|eot_id|>'"
#define LLAMA3_ANSWER "'<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}"
#define KNOWLEDGE "{{- \"Cutting Knowledge Date: December 2023\\n\" }}"
enum { MAX_SIGNS = 4 };
static const struct {
    tpi_chat_family family;
    const char *has[MAX_SIGNS], *has_not;
} signs[] = {
    {TPI_CHAT_SMOLLM2,
     {"You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>",
      "messages[0]['role'] != 'system'", "<|im_start|>assistant"},
     "tools"},
    {TPI_CHAT_QWEN25,
     {"'<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
      "assistant.<|im_end|>\\n'",
      "'<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n'",
      "'<|im_start|>assistant\\n' }}"},
     "enable_thinking"},
    {TPI_CHAT_QWEN3,
     {"'<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n'",
      "enable_thinking is defined and enable_thinking is false", "reasoning_content",
      "'<|im_start|>assistant\\n' }}"},
     "{{- '<think>\\n' }}"},
    {TPI_CHAT_QWEN3, /* Qwen3-*-Thinking-2507 */
     {"'<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n'", "reasoning_content",
      "'<|im_start|>assistant\\n<think>\\n' }}"},
     "enable_thinking"},
    {TPI_CHAT_LLAMA3, /* before 3.1 */
     {LLAMA3_MESSAGE " %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}",
      LLAMA3_ANSWER},
     KNOWLEDGE},
    {TPI_CHAT_LLAMA3, {LLAMA3_MESSAGE " }}", LLAMA3_ANSWER, "{{- bos_token }}", KNOWLEDGE}, NULL},
};

static const char *find(const char *text, size_t length, const char *needle)
{
    return memmem(text, length, needle, strlen(needle));
}

/* The date a Llama-3.1 template writes when nobody gives it one. False where we cannot tell. */
static bool read_date(const char *text, size_t length, tpi_chat *chat)
{
    static const char before[] = "set date_string = \"";
    if (!find(text, length, "set system_message = \"\" %}")) return false;
    chat->knowledge_header = true;
    chat->today = find(text, length, "strftime_now(\"%d %b %Y\")") != NULL;
    if (chat->today) return true;
    const char *at = find(text, length, before);
    if (!at) return false;
    at += sizeof before - 1;
    const size_t rest = (size_t)(text + length - at);
    const char *quote = memchr(at, '"', rest < TPI_DATE_MAX ? rest : TPI_DATE_MAX);
    if (!quote) return false;
    for (const char *c = at; c < quote; c++)
        if (*c < 0x20 || *c > 0x7e || *c == '<') return false;
    snprintf(chat->date, sizeof chat->date, "%.*s", (int)(quote - at), at);
    return true;
}

static bool by_signs(const char *text, size_t length, tpi_chat *chat)
{
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        bool all = !signs[i].has_not || !find(text, length, signs[i].has_not);
        for (int k = 0; all && k < MAX_SIGNS && signs[i].has[k]; k++)
            all = find(text, length, signs[i].has[k]) != NULL;
        if (!all) continue;
        *chat = (tpi_chat){.family = signs[i].family};
        chat->opens_thinking = find(text, length, "assistant\\n<think>\\n' }}") != NULL;
        return !find(text, length, KNOWLEDGE) || read_date(text, length, chat);
    }
    return false;
}

tpi_chat tpi_chat_recognise(const char *text, size_t length)
{
    tpi_chat chat = {.family = TPI_CHAT_NONE};
    while (length > 0 && strchr(" \t\r\n", text[length - 1])) length--;
    if (length == 0) return chat;
    const uint64_t hash = XXH3_64bits(text, length);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].hash == hash) return known[i].chat;
    if (by_signs(text, length, &chat)) return chat;
    chat = (tpi_chat){.family = TPI_CHAT_UNKNOWN};
    if (find(text, length, "<|im_start|>")) chat.family = TPI_CHAT_CHATML;
    return chat;
}

bool tpi_chat_is_marker(tpi_chat_family family, const char *text, size_t length)
{
    static const char *const chatml[] = {"<|im_start|>", "<|im_end|>", NULL};
    static const char *const llama3[] = {"<|begin_of_text|>", "<|start_header_id|>",
                                         "<|end_header_id|>", "<|eot_id|>", NULL};
    if (family == TPI_CHAT_NONE || family == TPI_CHAT_UNKNOWN) return false;
    for (const char *const *m = family == TPI_CHAT_LLAMA3 ? llama3 : chatml; *m; m++)
        if (strlen(*m) == length && memcmp(*m, text, length) == 0) return true;
    return false;
}
