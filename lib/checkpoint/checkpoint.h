/* The inside of a checkpoint, shared by the readers of the two formats. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_CHECKPOINT_CHECKPOINT_H
#define TPI_CHECKPOINT_CHECKPOINT_H

#include <tpcl/checkpoint.h>

#include "checkpoint/arena.h"
#include "checkpoint/file.h"

/* Ceilings on what a file may make us hold; real models stay far below (docs/FILES.md). */
enum {
    TPI_MAX_TENSORS = 65536,
    TPI_MAX_METADATA = 65536,
    TPI_MAX_VALUE_TEXT = 4096, /* bytes of one metadata value as text for people */
};

/* One tensor of a file; also the context of its host tensor's read(). */
typedef struct tpi_entry {
    tpcl_tensor_info info;
    const tpi_file *file;
} tpi_entry;

typedef struct tpi_metadata {
    const char *key, *value;
} tpi_metadata;

struct tpcl_checkpoint {
    char *path;
    const char *format;
    const tpcl_log *log; /* during open only */
    tpi_arena arena;
    tpi_file *files; /* allocated once: entries point into it */
    int n_files;
    tpi_entry *entries;
    int n_entries, entry_room;
    tpi_entry **by_name;       /* sorted, for look-ups and duplicates */
    const tpi_entry **weights; /* [layers][TPCL_W_ROLES]; roles without a layer in row 0 */
    tpi_metadata *metadata;
    int n_metadata, metadata_room;
    tpcl_model_config config;
    tpcl_tokenizer_source tokenizer;
};

/* A zeroed entry at the end of the list. May move the list: index it after all files are read. */
tpcl_status tpi_entry_add(tpcl_checkpoint *cp, tpi_entry **out);
/* Sorts by name; a name that comes twice is TPCL_ERR_FORMAT. */
tpcl_status tpi_entries_index(tpcl_checkpoint *cp);
/* NULL when there is no such tensor. */
const tpi_entry *tpi_entry_find(const tpcl_checkpoint *cp, const char *name);

/* `value` becomes one line of plain text: control bytes escaped, long ones cut. */
tpcl_status tpi_metadata_add(tpcl_checkpoint *cp, const char *key, const char *value,
                             size_t length);

/* The two formats. Each fills everything but `weights`. */
tpcl_status tpi_gguf_open(tpcl_checkpoint *cp);
tpcl_status tpi_folder_open(tpcl_checkpoint *cp);

#endif
