/* tpcl devices: what --device can name. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <tpcl/device.h>

#include "commands.h"
#include "report.h"
#include "text.h"

/* The words that --device takes. */
static const char *type_name(tpcl_device_type type)
{
    static const char *const names[] = {"gpu", "igpu", "accelerator", "cpu"};
    return names[type];
}

static void put_line(const char *indent, const char *name, const char *value)
{
    char clean[600];
    text_escape(value, strlen(value), clean, sizeof clean);
    printf("%s%-20s%s\n", indent, name, clean);
}

static void put_details(const tpcl_device_info *d, const char *indent)
{
    char text[128], a[32];
    put_line(indent, "type", type_name(d->type));
    put_line(indent, "vendor", d->vendor);
    put_line(indent, "driver", d->driver);
    put_line(indent, "OpenCL C", d->c_version);
    snprintf(text, sizeof text, "%d%s", d->compute_units,
             d->partitionable ? ", can be split into sub-devices" : "");
    put_line(indent, "compute units", text);
    snprintf(text, sizeof text, "%s%s", text_bytes(d->global_bytes, a, sizeof a),
             d->host_unified ? ", shared with the host" : "");
    put_line(indent, "memory", text);
    put_line(indent, "largest buffer", text_bytes(d->max_alloc_bytes, a, sizeof a));
    put_line(indent, "local memory", text_bytes(d->local_bytes, a, sizeof a));
    snprintf(text, sizeof text, "%zu", d->max_workgroup);
    put_line(indent, "work-group", text);
    put_line(indent, "fp16 arithmetic", d->fp16 ? "yes" : "no (not needed)");
    put_line(indent, "usable", d->usable ? "yes" : "no: not available, or without a compiler");
    if (d->same_as >= 0) {
        snprintf(text, sizeof text, "device %d, through another driver", d->same_as);
        put_line(indent, "the same as", text);
    }
}

static void put_tree(const tpcl_device_info *list, int n, bool names_only)
{
    for (int i = 0; i < n; i++) {
        char clean[600];
        bool seen = false;
        for (int k = 0; k < i && !seen; k++) seen = strcmp(list[k].platform, list[i].platform) == 0;
        if (seen) continue;
        text_escape(list[i].platform, strlen(list[i].platform), clean, sizeof clean);
        printf("Platform: %s\n", clean);
        int last = i;
        for (int k = i; k < n; k++)
            if (strcmp(list[k].platform, list[i].platform) == 0) last = k;
        for (int k = i; k <= last; k++) {
            if (strcmp(list[k].platform, list[i].platform) != 0) continue;
            text_escape(list[k].name, strlen(list[k].name), clean, sizeof clean);
            printf(" %s Device %d: %s%s\n", k == last ? "`--" : "+--", list[k].index, clean,
                   list[k].usable ? "" : " (not usable)");
            if (!names_only) put_details(&list[k], k == last ? "      " : " |    ");
        }
    }
}

static json_t *json_text(const char *text)
{
    return text_json(text, strlen(text));
}

static json_t *json_device(const tpcl_device_info *d)
{
    json_t *o = json_object();
    json_object_set_new(o, "index", json_integer(d->index));
    json_object_set_new(o, "type", json_string(type_name(d->type)));
    json_object_set_new(o, "name", json_text(d->name));
    json_object_set_new(o, "vendor", json_text(d->vendor));
    json_object_set_new(o, "platform", json_text(d->platform));
    json_object_set_new(o, "driver", json_text(d->driver));
    json_object_set_new(o, "opencl_c", json_text(d->c_version));
    json_object_set_new(o, "compute_units", json_integer(d->compute_units));
    json_object_set_new(o, "partitionable", json_boolean(d->partitionable));
    json_object_set_new(o, "global_bytes", json_integer((json_int_t)d->global_bytes));
    json_object_set_new(o, "max_alloc_bytes", json_integer((json_int_t)d->max_alloc_bytes));
    json_object_set_new(o, "local_bytes", json_integer((json_int_t)d->local_bytes));
    json_object_set_new(o, "max_workgroup", json_integer((json_int_t)d->max_workgroup));
    json_object_set_new(o, "host_unified", json_boolean(d->host_unified));
    json_object_set_new(o, "fp16", json_boolean(d->fp16));
    json_object_set_new(o, "usable", json_boolean(d->usable));
    json_object_set_new(o, "same_as", d->same_as >= 0 ? json_integer(d->same_as) : json_null());
    return o;
}

static void put_json(const tpcl_device_info *list, int n)
{
    json_t *devices = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(devices, json_device(&list[i]));
    json_t *object = json_pack("{s:o}", "devices", devices);
    json_dumpf(object, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(object);
}

int devices_command(const struct settings *s)
{
    tpcl_device_info *list = NULL;
    int n = 0;
    int code = report_status(tpcl_device_list(&list, &n));
    if (!code && n == 0)
        code = report_fail(EX_UNAVAILABLE,
                           "no OpenCL device: install a driver (package pocl-opencl-icd runs on "
                           "the CPU) and see that OCL_ICD_VENDORS does not hide it");
    if (!code && s->json) put_json(list, n);
    if (!code && !s->json) put_tree(list, n, s->list);
    tpcl_device_list_free(&list);
    return code;
}
