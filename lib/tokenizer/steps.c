/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "tokenizer/load_json.h"
#include "tokenizer/text.h"

enum { MAX_STEPS = 4 };

/* "" where the step has no type, which is then none of ours. */
static const char *type_of(const json_t *step)
{
    const char *type = json_string_value(json_object_get(step, "type"));
    return type ? type : "";
}

/* One step, or the members of a Sequence. `members` is the key that holds them. */
static tpcl_status flatten(const json_t *value, const char *what, const char *members,
                           const json_t *steps[MAX_STEPS], size_t *n)
{
    tpcl_status status = TPCL_OK;
    *n = 0;
    if (!value || json_is_null(value)) goto done;
    if (strcmp(type_of(value), "Sequence") != 0) {
        steps[(*n)++] = value;
        goto done;
    }
    const json_t *list = json_object_get(value, members);
    TPI_REQUIRE(json_is_array(list), TPCL_ERR_FORMAT, "tokenizer.json: %s.%s is no array", what,
                members);
    TPI_REQUIRE(json_array_size(list) <= MAX_STEPS, TPCL_ERR_UNSUPPORTED,
                "tokenizer.json: %s has %zu steps, none of the known ones has more than %d", what,
                json_array_size(list), MAX_STEPS);
    for (*n = 0; *n < json_array_size(list); (*n)++) steps[*n] = json_array_get(list, *n);
done:
    return status;
}

tpcl_status tpi_json_normalizer(const json_t *normalizer, bool *nfc)
{
    tpcl_status status = TPCL_OK;
    const json_t *steps[MAX_STEPS];
    size_t n;

    *nfc = false;
    TPI_TRY(flatten(normalizer, "normalizer", "normalizers", steps, &n));
    for (size_t i = 0; i < n; i++) {
        TPI_REQUIRE(strcmp(type_of(steps[i]), "NFC") == 0, TPCL_ERR_UNSUPPORTED,
                    "tokenizer.json: normalizer '%s': only NFC is supported",
                    tpi_quote_z(type_of(steps[i])).text);
        *nfc = true;
    }
done:
    return status;
}

tpcl_status tpi_json_decoder(const json_t *decoder)
{
    tpcl_status status = TPCL_OK;
    const json_t *steps[MAX_STEPS];
    size_t n;

    TPI_TRY(flatten(decoder, "decoder", "decoders", steps, &n));
    for (size_t i = 0; i < n; i++)
        TPI_REQUIRE(strcmp(type_of(steps[i]), "ByteLevel") == 0, TPCL_ERR_UNSUPPORTED,
                    "tokenizer.json: decoder '%s': only ByteLevel is supported",
                    tpi_quote_z(type_of(steps[i])).text);
done:
    return status;
}

static bool flag(const json_t *step, const char *key, bool missing)
{
    const json_t *value = json_object_get(step, key);
    return value ? !json_is_false(value) : missing;
}

/* The last step of every one of ours; *splits: it cuts with the GPT-2 pattern as well. */
static tpcl_status byte_level(const json_t *step, bool *splits)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(step && strcmp(type_of(step), "ByteLevel") == 0, TPCL_ERR_UNSUPPORTED,
                "tokenizer.json: pre_tokenizer '%s' does not end in ByteLevel; "
                "only byte-level BPE is supported",
                step ? tpi_quote_z(type_of(step)).text : "none");
    TPI_REQUIRE(!flag(step, "add_prefix_space", true), TPCL_ERR_UNSUPPORTED,
                "tokenizer.json: pre_tokenizer ByteLevel with add_prefix_space is not supported");
    *splits = flag(step, "use_regex", true);
done:
    return status;
}

static tpcl_status known_regex(const json_t *step, tpi_split *split)
{
    tpcl_status status = TPCL_OK;
    const char *regex =
        json_string_value(json_object_get(json_object_get(step, "pattern"), "Regex"));
    const char *behavior = json_string_value(json_object_get(step, "behavior"));

    TPI_REQUIRE(regex && behavior, TPCL_ERR_UNSUPPORTED,
                "tokenizer.json: pre_tokenizer Split without a Regex and a behavior");
    TPI_REQUIRE(tpi_split_from_regex(regex, split), TPCL_ERR_UNSUPPORTED,
                "tokenizer.json: unknown split pattern '%s'; known are GPT-2, Qwen2 and Llama-3",
                tpi_quote_z(regex).text);
    /* Our patterns leave nothing between two matches, so to keep the matches is to isolate them. */
    const bool invert = flag(step, "invert", false);
    TPI_REQUIRE((strcmp(behavior, "Isolated") == 0 && !invert) ||
                    (strcmp(behavior, "Removed") == 0 && invert),
                TPCL_ERR_UNSUPPORTED,
                "tokenizer.json: pre_tokenizer Split with behavior '%s' is not supported",
                tpi_quote_z(behavior).text);
done:
    return status;
}

tpcl_status tpi_json_split(const json_t *pre_tokenizer, tpi_split *split)
{
    tpcl_status status = TPCL_OK;
    const json_t *steps[MAX_STEPS] = {NULL};
    size_t n;
    bool gpt2 = false;

    TPI_TRY(flatten(pre_tokenizer, "pre_tokenizer", "pretokenizers", steps, &n));
    TPI_TRY(byte_level(n > 0 ? steps[n - 1] : NULL, &gpt2));
    const char *first = n > 1 ? type_of(steps[0]) : "";
    if (n == 1 && gpt2) {
        *split = TPI_SPLIT_GPT2;
    } else if (n == 2 && gpt2 && strcmp(first, "Digits") == 0 &&
               flag(steps[0], "individual_digits", false)) {
        *split = TPI_SPLIT_SMOLLM;
    } else if (n == 2 && !gpt2 && strcmp(first, "Split") == 0) {
        TPI_TRY(known_regex(steps[0], split));
    } else {
        TPI_FAIL(TPCL_ERR_UNSUPPORTED,
                 "tokenizer.json: pre_tokenizer of %zu steps starting with '%s': known are "
                 "ByteLevel alone, after Digits, and after Split",
                 n, tpi_quote_z(type_of(steps[0])).text);
    }
done:
    return status;
}
