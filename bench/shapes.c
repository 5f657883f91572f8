/* SPDX-License-Identifier: Apache-2.0 */
#include "shapes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"

enum { FILE_MAX = 64 * 1024, SIZE_LIMIT = 1 << 24 };

static const struct {
    const char *name;
    size_t at;
} fields[] = {
    {"vocab", offsetof(struct model_shape, vocab)},
    {"hidden", offsetof(struct model_shape, hidden)},
    {"inter", offsetof(struct model_shape, inter)},
    {"heads", offsetof(struct model_shape, heads)},
    {"kv_heads", offsetof(struct model_shape, kv_heads)},
    {"head_dim", offsetof(struct model_shape, head_dim)},
    {"layers", offsetof(struct model_shape, layers)},
};
enum { FIELDS = sizeof fields / sizeof fields[0] };

static long *field(struct model_shape *shape, size_t i)
{
    return (long *)(void *)((char *)shape + fields[i].at);
}

bool parse_long(const char *text, long min, long max, long *out)
{
    if (*text == '\0' || text[strspn(text, "0123456789")] != '\0') return false;
    errno = 0;
    const long value = strtol(text, NULL, 10);
    if (errno || value < min || value > max) return false;
    *out = value;
    return true;
}

/* One line without its end. */
static bool take_line(char *line, struct model_shape *out)
{
    char *value = strchr(line, '=');
    line[strcspn(line, "\r")] = '\0';
    if (*line == '#' || *line == '\0') return true;
    if (!value) return false;
    *value++ = '\0';
    for (size_t i = 0; i < FIELDS; i++) {
        if (strcmp(fields[i].name, line) != 0) continue;
        return *field(out, i) == 0 && parse_long(value, 1, SIZE_LIMIT, field(out, i));
    }
    return false;
}

static bool parse(const char *name, const char *text, struct model_shape *out, char *message,
                  size_t size)
{
    *out = (struct model_shape){0};
    for (int number = 1; *text; number++) {
        char line[128];
        const size_t length = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", length < sizeof line ? (int)length : 0, text);
        if (length >= sizeof line || !take_line(line, out)) {
            snprintf(message, size,
                     "%s: line %d is not name=value with a new name and a size from 1 to %d", name,
                     number, SIZE_LIMIT);
            return false;
        }
        text += length + (text[length] == '\n');
    }
    for (size_t i = 0; i < FIELDS; i++) {
        if (*field(out, i) > 0) continue;
        snprintf(message, size, "%s: %s is missing", name, fields[i].name);
        return false;
    }
    if (out->heads % out->kv_heads == 0) return true;
    snprintf(message, size, "%s: %ld heads over %ld kv_heads", name, out->heads, out->kv_heads);
    return false;
}

bool shapes_load(const char *name, struct model_shape *out, char *message, size_t size)
{
    for (size_t i = 0; i < bench_shape_count; i++)
        if (strcmp(bench_shape_files[i].name, name) == 0)
            return parse(name, bench_shape_files[i].text, out, message, size);
    bool good = false;
    char *text = calloc(1, FILE_MAX + 1);
    FILE *file = text ? fopen(name, "re") : NULL;
    const size_t bytes = file ? fread(text, 1, FILE_MAX, file) : 0;
    if (!file || ferror(file))
        snprintf(message, size, "%s: %s; built in are: %s", name, strerror(errno),
                 bench_shape_names);
    else if (bytes == FILE_MAX || strlen(text) != bytes)
        snprintf(message, size, "%s: not a shape file", name);
    else
        good = parse(name, text, out, message, size);
    if (file) fclose(file);
    free(text);
    return good;
}
